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
 * Indexes: primary keys throughout. Rows are sorted by delivery ID, so that two batches cannot deadlock. What no longer holds
 * its lease changes nothing; its result is kept in late_results. An attempt row that already has an outcome means that this very
 * batch was committed before and its answer was lost: that is no late result.
 */
const finish = prepared(`
  WITH input AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::uuid[], $4::uuid[], $5::bigint[], $6::int[], $7::float8[], $8::float8[], $9::text[],
                         $10::smallint[], $11::text[], $12::text[], $13::text[], $14::int[], $15::int[], $16::text[], $17::text[],
                         $18::float8[], $19::bool[])
      AS i (delivery_id, event_id, tenant_id, endpoint_id, lease_token, attempt_number, started_ms, duration_ms, outcome,
            http_status, error_code, error_detail, response_headers, body_at, body_bytes, state, reason, delay_ms, deferral)
  ), ended AS (
    DELETE FROM relayops.delivery_work w USING input i
    WHERE w.delivery_id = i.delivery_id AND w.lease_token = i.lease_token AND i.state IS NOT NULL
    RETURNING w.delivery_id, w.leased_by
  ), pending AS (
    UPDATE relayops.delivery_work w
    SET due_at = now() + i.delay_ms * interval '1 ms', lease_token = NULL, lease_until = NULL, leased_by = NULL,
        attempt_no = w.attempt_no - CASE WHEN i.deferral THEN 1 ELSE 0 END,
        deferrals = w.deferrals + CASE WHEN i.deferral THEN 1 ELSE 0 END
    FROM input i
    WHERE w.delivery_id = i.delivery_id AND w.lease_token = i.lease_token AND i.state IS NULL
    RETURNING w.delivery_id, w.due_at
  ), held AS (
    SELECT delivery_id, NULL::timestamptz AS due_at FROM ended UNION ALL SELECT delivery_id, due_at FROM pending
  ), attempts AS (
    INSERT INTO relayops.delivery_attempts (event_id, delivery_id, attempt_number, tenant_id, endpoint_id, started_at, duration_ms,
      outcome, http_status, error_code, error_detail, response_headers, response_body, next_attempt_at, worker)
    SELECT i.event_id, i.delivery_id, i.attempt_number, i.tenant_id, i.endpoint_id, to_timestamp(i.started_ms / 1000), i.duration_ms,
      i.outcome, i.http_status, i.error_code, i.error_detail, i.response_headers::jsonb,
      CASE WHEN i.body_bytes IS NOT NULL THEN substring($20::bytea FROM i.body_at + 1 FOR i.body_bytes) END, h.due_at, $21
    FROM input i JOIN held h USING (delivery_id)
    WHERE i.outcome IS NOT NULL
  ), final AS (
    UPDATE relayops.deliveries d
    SET state = i.state, reason = i.reason, finished_at = now(),
        unsuccessful_at = CASE WHEN i.state = 'succeeded' THEN NULL ELSE now() END
    FROM input i JOIN ended USING (delivery_id)
    WHERE d.tenant_id = i.tenant_id AND d.event_id = i.event_id AND d.endpoint_id = i.endpoint_id
  ), fenced AS (
    INSERT INTO relayops.late_results (event_id, delivery_id, attempt_number, tenant_id, outcome, http_status, error_code, worker)
    SELECT i.event_id, i.delivery_id, i.attempt_number, i.tenant_id, i.outcome, i.http_status, i.error_code, $21
    FROM input i
    WHERE i.outcome IS NOT NULL AND NOT EXISTS (SELECT 1 FROM held h WHERE h.delivery_id = i.delivery_id)
      AND NOT EXISTS (SELECT 1 FROM relayops.delivery_attempts a
                      WHERE a.event_id = i.event_id AND a.delivery_id = i.delivery_id AND a.attempt_number = i.attempt_number
                        AND a.started_at IS NOT NULL)
    RETURNING delivery_id
  )
  SELECT delivery_id FROM fenced`);

/** @returns the deliveries whose result came too late */
export async function finishWork(
  db: Queryable,
  worker: string,
  batch: readonly FinishedAttempt[],
): Promise<DeliveryId[]> {
  const rows = [...batch].sort((a, b) => (a.deliveryId < b.deliveryId ? -1 : 1));
  const bodies = concatenate(rows.map((row) => row.attempt?.responseBody ?? null));
  const { rows: fenced } = await db.query<{ delivery_id: DeliveryId }>(
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
    ]),
  );
  return fenced.map((row) => row.delivery_id);
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
