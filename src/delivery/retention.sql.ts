import type { Queryable } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';

/** Serialises everything that makes or drops partitions, over all processes; held for one transaction. */
const PARTITION_LOCK = 7_265_611_002;

const tryLock = prepared(`SELECT pg_try_advisory_xact_lock(${PARTITION_LOCK}) AS locked`);

/** @returns false when another process is at it */
export async function tryPartitionLock(db: Queryable): Promise<boolean> {
  return (await db.query<{ locked: boolean }>(tryLock([]))).rows[0]?.locked === true;
}

const waitLock = prepared(`SELECT pg_advisory_xact_lock(${PARTITION_LOCK})`);

export async function waitPartitionLock(db: Queryable): Promise<void> {
  await db.query(waitLock([]));
}

const ensure = prepared(
  `SELECT relayops.ensure_partitions(now() - interval '1 day', now() + $1 * interval '1 day') AS made`,
);

/** Under the lock. @returns how many partitions were made */
export async function ensurePartitions(db: Queryable, daysAhead: number): Promise<number> {
  return (await db.query<{ made: number }>(ensure([daysAhead]))).rows[0]?.made ?? 0;
}

/**
 * For the rest of the transaction: gives a table lock up soon, because acceptance queues behind whoever waits for one. The time is
 * shorter than PostgreSQL's deadlock_timeout (1 s), so that no statement of delivery is ever ended as the victim of a deadlock with us.
 */
export async function giveUpLocksSoon(db: Queryable): Promise<void> {
  await db.query({ text: "SET LOCAL lock_timeout = '200ms'" });
}

/** A week of facts: its suffix (`2026w49`) and the event IDs in it. */
export interface PartitionWeek {
  readonly suffix: string;
  readonly from_id: string;
  readonly to_id: string;
}

const oldWeeks = prepared(`
  SELECT substring(c.relname FROM '^events_(.*)$') AS suffix, b.bounds[1] AS from_id, b.bounds[2] AS to_id
  FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
  CROSS JOIN LATERAL (SELECT regexp_match(pg_get_expr(c.relpartbound, c.oid), 'FROM \\(''(.*?)''\\) TO \\(''(.*?)''\\)') AS bounds) b
  WHERE i.inhparent = 'relayops.events'::regclass AND b.bounds[2]::uuid <= relayops.first_id_at(now() - $1 * interval '1 day')
  ORDER BY 1`);

/** Weeks that lie wholly before the retention's edge, oldest first. */
export async function findOldWeeks(db: Queryable, retentionDays: number): Promise<PartitionWeek[]> {
  return (await db.query<PartitionWeek>(oldWeeks([retentionDays]))).rows;
}

/** Nobody reads or writes the week from here on, until the transaction ends. @throws SQLSTATE 55P03 when somebody is at it */
export async function lockWeek(db: Queryable, week: PartitionWeek): Promise<void> {
  const tables = partitionsOf(week).map((name) => `relayops.${name}`);
  await db.query({ text: `LOCK TABLE ${tables.join(', ')} IN ACCESS EXCLUSIVE MODE` });
}

function partitionsOf(week: PartitionWeek): string[] {
  if (!/^\d{4}w\d{2}$/.test(week.suffix)) throw new Error(`unexpected partition name events_${week.suffix}`);
  return ['delivery_attempts', 'deliveries', 'events'].map((table) => `${table}_${week.suffix}`);
}

const openInWeek = prepared(
  `SELECT EXISTS (SELECT 1 FROM relayops.delivery_work WHERE event_id >= $1 AND event_id < $2) AS open`,
);

/** Scans the work table, which holds open deliveries only. */
export async function hasOpenWork(db: Queryable, week: PartitionWeek): Promise<boolean> {
  return (await db.query<{ open: boolean }>(openInWeek([week.from_id, week.to_id]))).rows[0]?.open === true;
}

/** Drops a week, children first, under `lockWeek`. */
export async function dropWeek(db: Queryable, week: PartitionWeek): Promise<void> {
  for (const table of partitionsOf(week)) await db.query({ text: `DROP TABLE relayops.${table}` });
}

const oldDeliveries = prepared(`
  WITH old AS MATERIALIZED (
    SELECT tenant_id, event_id, endpoint_id, delivery_id FROM relayops.deliveries
    WHERE event_id < relayops.first_id_at(now() - $1 * interval '1 day') AND state <> 'open'
    LIMIT $2 FOR UPDATE SKIP LOCKED
  ), attempts AS (
    DELETE FROM relayops.delivery_attempts a USING old o WHERE a.event_id = o.event_id AND a.delivery_id = o.delivery_id
  )
  DELETE FROM relayops.deliveries d USING old o
  WHERE d.tenant_id = o.tenant_id AND d.event_id = o.event_id AND d.endpoint_id = o.endpoint_id AND d.state <> 'open'`);

/** One bounded batch of finished deliveries before the edge, with their attempts. Scans old partitions only. */
export async function deleteOldDeliveries(
  db: Queryable,
  retentionDays: number,
  limit: number,
): Promise<number> {
  return (await db.query(oldDeliveries([retentionDays, limit]))).rowCount ?? 0;
}

const oldEvents = prepared(`
  WITH old AS MATERIALIZED (
    SELECT e.tenant_id, e.event_id FROM relayops.events e
    WHERE e.event_id < relayops.first_id_at(now() - $1 * interval '1 day')
      AND NOT EXISTS (SELECT 1 FROM relayops.deliveries d WHERE d.tenant_id = e.tenant_id AND d.event_id = e.event_id)
    LIMIT $2 FOR UPDATE SKIP LOCKED
  )
  DELETE FROM relayops.events e USING old o WHERE e.tenant_id = o.tenant_id AND e.event_id = o.event_id`);

/** One bounded batch of events before the edge that have no delivery left. */
export async function deleteOldEvents(db: Queryable, retentionDays: number, limit: number): Promise<number> {
  return (await db.query(oldEvents([retentionDays, limit]))).rowCount ?? 0;
}

const oldNotes = (table: 'late_results' | 'delivery_replays') =>
  prepared(`
  DELETE FROM relayops.${table} WHERE ctid IN (
    SELECT ctid FROM relayops.${table} WHERE event_id < relayops.first_id_at(now() - $1 * interval '1 day') LIMIT $2)`);
const oldLateResults = oldNotes('late_results');
const oldReplays = oldNotes('delivery_replays');

/** One bounded batch each of late results and replay records. Indexes: late_results_delivery, delivery_replays_delivery. */
export async function deleteOldNotes(db: Queryable, retentionDays: number, limit: number): Promise<number> {
  const late = (await db.query(oldLateResults([retentionDays, limit]))).rowCount ?? 0;
  return late + ((await db.query(oldReplays([retentionDays, limit]))).rowCount ?? 0);
}
