import type { Queryable } from '../platform/db/database.ts';
import { plainArray, prepared } from '../platform/db/sql.ts';
import type { DeliveryId, EndpointId } from '../shared/ids.ts';

const insert = prepared(`
  INSERT INTO relayops.outbox_messages (outbox_id, delivery_id, endpoint_id)
  SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[])`);

/** Rows for deliveries that are due at once, in the transaction that made them so. `outboxId` is a UUIDv7. */
export async function insertMessages(
  db: Queryable,
  rows: readonly {
    readonly outboxId: string;
    readonly deliveryId: DeliveryId;
    readonly endpointId: EndpointId;
  }[],
): Promise<void> {
  const values = [
    plainArray(rows.map((row) => row.outboxId)),
    plainArray(rows.map((row) => row.deliveryId)),
    plainArray(rows.map((row) => row.endpointId)),
  ];
  await db.query(insert(values));
}

export interface OutboxRow {
  readonly outbox_id: string;
  readonly delivery_id: DeliveryId;
  readonly endpoint_id: EndpointId;
  readonly queue: 'ready' | 'dead';
  /** Milliseconds until the delivery is due; negative when it is overdue. */
  readonly in_ms: number;
  readonly context: Record<string, unknown> | null;
}

const claim = prepared(`
  WITH picked AS MATERIALIZED (
    SELECT o.ctid AS tid FROM relayops.outbox_messages o
    WHERE o.outbox_id >= $1 AND (o.claimed_until IS NULL OR o.claimed_until <= now())
    ORDER BY o.outbox_id LIMIT $2 FOR UPDATE SKIP LOCKED
  )
  UPDATE relayops.outbox_messages o SET claimed_by = $3, claimed_until = now() + $4 * interval '1 ms'
  FROM picked p WHERE o.ctid = p.tid
  RETURNING o.outbox_id, o.delivery_id, o.endpoint_id, o.queue, extract(epoch FROM o.due_at - now())::float8 * 1000 AS in_ms, o.context`);

/**
 * Takes rows that are in no publisher's hands, oldest first, for `ms` milliseconds (SPEC F2). Index: primary key from `floorId` on, so that the
 * dead entries of what was published before are not waded through. SKIP LOCKED: any number of publishers may do this at a time.
 */
export async function claimMessages(
  db: Queryable,
  from: { readonly floorId: string; readonly limit: number },
  by: { readonly publisher: string; readonly ms: number },
): Promise<OutboxRow[]> {
  const { rows } = await db.query<OutboxRow>(claim([from.floorId, from.limit, by.publisher, by.ms]));
  return rows.sort((a, b) => (a.outbox_id < b.outbox_id ? -1 : 1));
}

const remove = prepared(`
  DELETE FROM relayops.outbox_messages o
  USING unnest($1::uuid[]) AS i (outbox_id), (SELECT set_config('synchronous_commit', 'off', true)) AS quick
  WHERE o.outbox_id BETWEEN i.outbox_id AND i.outbox_id`);

/**
 * Removes rows whose messages are confirmed or not needed; whoever got the confirm may, whoever claimed the row since. Not worth a flush to disk of its own: a removal
 * that is lost in a crash makes one message twice, which the claim absorbs. Index: primary key.
 */
export async function removeMessages(db: Queryable, outboxIds: readonly string[]): Promise<void> {
  await db.query(remove([plainArray([...outboxIds].sort())]));
}

const release = prepared(`
  UPDATE relayops.outbox_messages o SET claimed_by = NULL, claimed_until = NULL
  FROM unnest($1::uuid[]) AS i (outbox_id)
  WHERE o.outbox_id BETWEEN i.outbox_id AND i.outbox_id AND o.claimed_by = $2`);

/** Gives rows back before their claim runs out. Index: primary key. */
export async function releaseMessages(
  db: Queryable,
  outboxIds: readonly string[],
  publisher: string,
): Promise<void> {
  await db.query(release([plainArray([...outboxIds].sort()), publisher]));
}

const prune = prepared(`
  WITH page AS MATERIALIZED (
    SELECT o.ctid AS tid, o.outbox_id, o.delivery_id, o.queue FROM relayops.outbox_messages o
    WHERE o.outbox_id > $1 ORDER BY o.outbox_id LIMIT $2
  ), gone AS (
    DELETE FROM relayops.outbox_messages o USING page p
    WHERE o.ctid = p.tid AND p.queue = 'ready'
      AND NOT EXISTS (SELECT 1 FROM relayops.delivery_work w WHERE w.delivery_id BETWEEN p.delivery_id AND p.delivery_id)
    RETURNING 1
  )
  SELECT (SELECT count(*) FROM gone)::int AS removed, (SELECT count(*) FROM page)::int AS seen,
         (SELECT outbox_id FROM page ORDER BY outbox_id DESC LIMIT 1) AS last_id`);

/** A page of the outbox without the rows whose deliveries have ended: their messages would say nothing. Index: primary keys. */
export async function pruneMessages(
  db: Queryable,
  afterId: string,
  limit: number,
): Promise<{ removed: number; seen: number; last_id: string | null }> {
  const { rows } = await db.query<{ removed: number; seen: number; last_id: string | null }>(
    prune([afterId, limit]),
  );
  return rows[0]!;
}

/** Counting further would cost more than it tells: above it the statistics' estimate is used. */
const EXACT_UP_TO = 20_000;

const sample = prepared(`
  SELECT (SELECT count(*)::int FROM (SELECT 1 FROM relayops.outbox_messages LIMIT ${EXACT_UP_TO}) o) AS counted,
         coalesce((SELECT n_live_tup FROM pg_stat_user_tables
                   WHERE schemaname = 'relayops' AND relname = 'outbox_messages'), 0)::float8 AS estimated`);

/** Rows that wait for their confirm: exact up to a bound, then the statistics' estimate, which lags by a second or so. */
export async function countMessages(db: Queryable): Promise<number> {
  const { counted, estimated } = (await db.query<{ counted: number; estimated: number }>(sample([])))
    .rows[0]!;
  return counted < EXACT_UP_TO ? counted : Math.max(counted, Math.round(estimated));
}

const removeOld = prepared(`
  DELETE FROM relayops.outbox_messages WHERE ctid = ANY(ARRAY(
    SELECT ctid FROM relayops.outbox_messages WHERE outbox_id < $1 ORDER BY outbox_id LIMIT $2))`);

/** For installations that went back to the PostgreSQL transport: nothing publishes what is left. @returns how many */
export async function removeMessagesBefore(db: Queryable, id: string, limit: number): Promise<number> {
  return (await db.query(removeOld([id, limit]))).rowCount ?? 0;
}
