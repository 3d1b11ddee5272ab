import type { Queryable } from '../platform/db/database.ts';
import { plainArray, prepared, textArray } from '../platform/db/sql.ts';
import type { DeliveryId, EndpointId, EventId, TenantId } from '../shared/ids.ts';

/** What a worker made of one claimed delivery. */
export interface FinishedAttempt {
  readonly deliveryId: DeliveryId;
  readonly eventId: EventId;
  readonly tenantId: TenantId;
  readonly endpointId: EndpointId;
  readonly leaseToken: string;
  readonly attemptNumber: number;
  /** Null when nothing was sent: no attempt is recorded. */
  readonly attempt: RecordedAttempt | null;
  readonly next: NextState;
}

export interface RecordedAttempt {
  readonly startedAtMs: number;
  readonly durationMs: number;
  readonly outcome: 'success' | 'retryable' | 'rejected' | 'gone' | 'redirected' | 'unknown';
  readonly httpStatus: number | null;
  readonly errorCode: string | null;
  readonly errorDetail: string | null;
  readonly responseHeaders: Readonly<Record<string, string>> | null;
  /** Already cut to what is kept. */
  readonly responseBody: Buffer | null;
}

export type NextState =
  | {
      readonly kind: 'ended';
      readonly state: 'succeeded' | 'failed' | 'dead' | 'cancelled';
      readonly reason: string | null;
    }
  /** Back to pending. A deferral gives the attempt number back, since nothing was sent. */
  | { readonly kind: 'pending'; readonly delayMs: number; readonly deferral: boolean };

/**
 * Writes a batch of results: attempt rows, final states, next due times, all or nothing, each fenced by its lease token (SPEC D2).
 *
 * Indexes: primary keys throughout. The planner may be looking at empty tables, on which reading a whole index once costs it nothing; three
 * things keep it from that: BETWEEN x AND x instead of equality, which it cannot turn round; a boolean that splits the input, of which it
 * expects half (of `state IS NULL` a single row); and facts that are found one by one (LATERAL, LIMIT) and updated by their place, with the event
 * ID beside it to leave out the other partitions. plans.test.ts guards it. The work row and the input travel on through RETURNING, so that nothing is joined twice. Rows are
 * sorted by delivery ID, so that two batches cannot deadlock. On a broker transport retries and dead letters get their outbox rows here. What no longer holds its lease changes nothing and is not counted.
 */
const finish = prepared(`
  WITH input AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::bigint[], $6::int[], $7::float8[], $8::float8[], $9::text[],
                         $10::smallint[], $11::text[], $12::text[], $13::text[], $14::int[], $15::int[], $16::text[], $17::text[],
                         $18::float8[], $19::bool[], $22::bool[], $23::uuid[])
      AS i (delivery_id, event_id, tenant_id, endpoint_id, lease_token, attempt_number, started_ms, duration_ms, outcome,
            http_status, error_code, error_detail, response_headers, body_at, body_bytes, state, reason, delay_ms, deferral, ends, outbox_id)
  ), ended AS (
    DELETE FROM relayops.delivery_work w USING input i
    WHERE w.delivery_id BETWEEN i.delivery_id AND i.delivery_id AND w.lease_token = i.lease_token AND i.ends
    RETURNING i.*, NULL::timestamptz AS next_attempt_at
  ), pending AS (
    UPDATE relayops.delivery_work w
    SET due_at = now() + i.delay_ms * interval '1 ms', lease_token = NULL, lease_until = NULL, leased_by = NULL,
        attempt_no = w.attempt_no - CASE WHEN i.deferral THEN 1 ELSE 0 END,
        deferrals = w.deferrals + CASE WHEN i.deferral THEN 1 ELSE 0 END
    FROM input i
    WHERE w.delivery_id BETWEEN i.delivery_id AND i.delivery_id AND w.lease_token = i.lease_token AND NOT i.ends
    RETURNING i.*, w.due_at AS next_attempt_at
  ), held AS (
    SELECT * FROM ended UNION ALL SELECT * FROM pending
  ), attempts AS (
    INSERT INTO relayops.delivery_attempts (event_id, delivery_id, attempt_number, tenant_id, endpoint_id, started_at, duration_ms,
      outcome, http_status, error_code, error_detail, response_headers, response_body, next_attempt_at, worker)
    SELECT event_id, delivery_id, attempt_number, tenant_id, endpoint_id, to_timestamp(started_ms / 1000), duration_ms,
      outcome, http_status, error_code, error_detail, response_headers::jsonb,
      CASE WHEN body_bytes IS NOT NULL THEN substring($20::bytea FROM body_at + 1 FOR body_bytes) END, next_attempt_at, $21
    FROM held WHERE outcome IS NOT NULL
  ), final AS (
    UPDATE relayops.deliveries d
    SET state = e.state, reason = e.reason, finished_at = now(),
        unsuccessful_at = CASE WHEN e.state = 'succeeded' THEN NULL ELSE now() END
    FROM ended e CROSS JOIN LATERAL (
      SELECT f.ctid AS tid, f.event_id FROM relayops.deliveries f
      WHERE f.tenant_id = e.tenant_id AND f.event_id = e.event_id AND f.endpoint_id = e.endpoint_id LIMIT 1) p
    WHERE d.ctid = p.tid AND d.event_id = p.event_id
    RETURNING d.delivery_id, d.event_id, d.tenant_id, d.endpoint_id, d.event_type, d.state, d.reason, d.finished_at,
              e.attempt_number, e.outbox_id, e.http_status, e.error_code
  ), retries AS (
    INSERT INTO relayops.outbox_messages (outbox_id, delivery_id, endpoint_id, due_at)
    SELECT outbox_id, delivery_id, endpoint_id, next_attempt_at FROM pending WHERE outbox_id IS NOT NULL
  ), dead_letters AS (
    INSERT INTO relayops.outbox_messages (outbox_id, delivery_id, endpoint_id, queue, context)
    SELECT outbox_id, delivery_id, endpoint_id, 'dead', jsonb_build_object('reason', reason, 'tenant_id', tenant_id, 'event_id', event_id,
             'event_type', event_type, 'delivery_id', delivery_id, 'endpoint_id', endpoint_id, 'attempts', attempt_number,
             'http_status', http_status, 'error_code', error_code, 'ended_at', finished_at)
    FROM final WHERE outbox_id IS NOT NULL AND state = 'dead'
  ), notices AS (
    INSERT INTO relayops.operational_notices (tenant_id, type, endpoint_id, data)
    SELECT f.tenant_id, 'delivery.dead', f.endpoint_id, jsonb_build_object('deliveryId', f.delivery_id, 'eventId', f.event_id,
             'eventType', f.event_type, 'endpointId', f.endpoint_id, 'reason', f.reason, 'attempts', f.attempt_number,
             'httpStatus', f.http_status, 'errorCode', f.error_code, 'endedAt', relayops.iso(f.finished_at))
    FROM final f
    WHERE f.state = 'dead' AND relayops.wants_notice(f.tenant_id, 'delivery.dead', f.endpoint_id)
      AND (SELECT v.format FROM relayops.events v WHERE v.tenant_id = f.tenant_id AND v.event_id = f.event_id LIMIT 1) <> 'operational'
  )
  SELECT (SELECT count(*) FROM ended)::int + (SELECT count(*) FROM pending)::int AS held`);

/** Which results get an outbox row, on a transport that has messages. */
export interface OutboxRule {
  /** Retries that are due in this many milliseconds or later; dead letters always. */
  readonly fromMs: number;
  /** A UUIDv7 for a row. */
  readonly newId: () => string;
}

function outboxIdOf({ next }: FinishedAttempt, outbox: OutboxRule | null): string | null {
  if (outbox === null) return null;
  const needsMessage = next.kind === 'pending' ? next.delayMs >= outbox.fromMs : next.state === 'dead';
  return needsMessage ? outbox.newId() : null;
}

/** @returns the deliveries whose result came too late */
export async function finishWork(
  db: Queryable,
  worker: string,
  batch: readonly FinishedAttempt[],
  outbox: OutboxRule | null,
): Promise<DeliveryId[]> {
  const rows = [...batch].sort((a, b) => (a.deliveryId < b.deliveryId ? -1 : 1));
  const bodies = concatenate(rows.map((row) => row.attempt?.responseBody ?? null));
  const result = await db.query<{ held: number }>(
    finish([
      plainArray(rows.map((row) => row.deliveryId)),
      plainArray(rows.map((row) => row.eventId)),
      plainArray(rows.map((row) => row.tenantId)),
      plainArray(rows.map((row) => row.endpointId)),
      plainArray(rows.map((row) => row.leaseToken)),
      plainArray(rows.map((row) => row.attemptNumber)),
      plainArray(rows.map((row) => row.attempt?.startedAtMs ?? null)),
      plainArray(rows.map((row) => row.attempt?.durationMs ?? null)),
      plainArray(rows.map((row) => row.attempt?.outcome ?? null)),
      plainArray(rows.map((row) => row.attempt?.httpStatus ?? null)),
      textArray(rows.map((row) => row.attempt?.errorCode)),
      textArray(rows.map((row) => storable(row.attempt?.errorDetail))),
      textArray(
        rows.map((row) =>
          row.attempt?.responseHeaders ? storable(JSON.stringify(row.attempt.responseHeaders)) : null,
        ),
      ),
      plainArray(bodies.offsets),
      plainArray(bodies.lengths),
      plainArray(rows.map((row) => (row.next.kind === 'ended' ? row.next.state : null))),
      textArray(rows.map((row) => (row.next.kind === 'ended' ? row.next.reason : null))),
      plainArray(rows.map((row) => (row.next.kind === 'pending' ? row.next.delayMs : 0))),
      plainArray(rows.map((row) => row.next.kind === 'pending' && row.next.deferral)),
      bodies.blob,
      worker,
      plainArray(rows.map((row) => row.next.kind === 'ended')),
      plainArray(rows.map((row) => outboxIdOf(row, outbox))),
    ]),
  );
  return result.rows[0]?.held === rows.length ? [] : recordLateResults(db, worker, rows);
}

/**
 * Keeps the results of a batch that were fenced off. An attempt row that already has its outcome is one that was held, or that this
 * very batch wrote before an answer was lost: that is no late result.
 */
const recordLate = prepared(`
  INSERT INTO relayops.late_results (event_id, delivery_id, attempt_number, tenant_id, outcome, http_status, error_code, worker)
  SELECT i.*, $8
  FROM unnest($1::uuid[], $2::uuid[], $3::int[], $4::uuid[], $5::text[], $6::smallint[], $7::text[])
    AS i (event_id, delivery_id, attempt_number, tenant_id, outcome, http_status, error_code)
  WHERE (SELECT count(*) FROM (
           SELECT 1 FROM relayops.delivery_attempts a
           WHERE a.event_id = i.event_id AND a.delivery_id = i.delivery_id AND a.attempt_number = i.attempt_number
             AND a.started_at IS NOT NULL LIMIT 1) found) = 0
  RETURNING delivery_id`);

async function recordLateResults(
  db: Queryable,
  worker: string,
  batch: readonly FinishedAttempt[],
): Promise<DeliveryId[]> {
  const rows = batch.flatMap(({ attempt, ...row }) => (attempt === null ? [] : [{ ...row, ...attempt }]));
  if (rows.length === 0) return [];
  const late = await db.query<{ delivery_id: DeliveryId }>(
    recordLate([
      plainArray(rows.map((row) => row.eventId)),
      plainArray(rows.map((row) => row.deliveryId)),
      plainArray(rows.map((row) => row.attemptNumber)),
      plainArray(rows.map((row) => row.tenantId)),
      plainArray(rows.map((row) => row.outcome)),
      plainArray(rows.map((row) => row.httpStatus)),
      textArray(rows.map((row) => row.errorCode)),
      worker,
    ]),
  );
  return late.rows.map((row) => row.delivery_id);
}

/** PostgreSQL text cannot hold U+0000, which a hostile receiver may send. */
function storable(text: string | null | undefined): string | null {
  return text == null ? null : text.replaceAll('\0', '\uFFFD').replaceAll('\\u0000', '\\ufffd');
}

/** Many byte strings as one binary parameter: hex text would cost twice the bytes and the time to write and read it. */
function concatenate(parts: readonly (Buffer | null)[]): {
  blob: Buffer;
  offsets: number[];
  lengths: (number | null)[];
} {
  let at = 0;
  const offsets = parts.map((part) => {
    const offset = at;
    at += part?.length ?? 0;
    return offset;
  });
  return {
    blob: Buffer.concat(parts.filter((part) => part !== null)),
    offsets,
    lengths: parts.map((part) => part?.length ?? null),
  };
}
