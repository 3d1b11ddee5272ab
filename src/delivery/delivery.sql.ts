import type { Queryable } from '../platform/db/database.ts';
import { plannedEachTime, prepared } from '../platform/db/sql.ts';
import {
  type DeliveryId,
  type EndpointId,
  type EventId,
  firstIdAt,
  type TenantId,
  timeOfId,
} from '../shared/ids.ts';

export type FinalState = 'succeeded' | 'failed' | 'dead' | 'cancelled';
/** `open` in the table is told apart by the work row: leased or not. */
export type DeliveryState = FinalState | 'pending' | 'in_progress';

export interface DeliveryRow {
  readonly delivery_id: DeliveryId;
  readonly event_id: EventId;
  readonly endpoint_id: EndpointId;
  readonly event_type: string;
  readonly state: DeliveryState;
  readonly reason: string | null;
  readonly finished_at: Date | null;
  readonly due_at: Date | null;
  readonly due_us: string | null;
  readonly attempt_no: number | null;
}

const COLUMNS = `d.delivery_id, d.event_id, d.endpoint_id, d.event_type, d.reason, d.finished_at, w.due_at, w.attempt_no,
  (extract(epoch FROM w.due_at) * 1000000)::bigint::text AS due_us,
  CASE WHEN d.state <> 'open' THEN d.state WHEN w.lease_until > now() THEN 'in_progress' ELSE 'pending' END AS state`;

/**
 * The range of event IDs in which a delivery's event lies: both IDs carry the same millisecond, so that no index on the delivery
 * ID is needed.
 */
export function eventRange(deliveryId: DeliveryId): [string, string] {
  const ms = timeOfId(deliveryId);
  return [firstIdAt(ms), firstIdAt(ms + 1)];
}

const one = prepared(`
  SELECT ${COLUMNS} FROM relayops.deliveries d LEFT JOIN relayops.delivery_work w ON w.delivery_id = d.delivery_id
  WHERE d.tenant_id = $1 AND d.event_id >= $2 AND d.event_id < $3 AND d.delivery_id = $4`);

/** Index: primary key, one partition, the events of one millisecond. */
export async function findDelivery(
  db: Queryable,
  tenantId: TenantId,
  deliveryId: DeliveryId,
): Promise<DeliveryRow | undefined> {
  return (await db.query<DeliveryRow>(one([tenantId, ...eventRange(deliveryId), deliveryId]))).rows[0];
}

export interface DeliveryFilter {
  readonly endpointId: EndpointId | null;
  readonly eventId: EventId | null;
  readonly type: string | null;
  readonly state: FinalState | null;
  /** Bounds as event IDs: the time is in the key. */
  readonly fromId: string | null;
  readonly toId: string | null;
}

const list = plannedEachTime(`
  SELECT ${COLUMNS} FROM relayops.deliveries d LEFT JOIN relayops.delivery_work w ON w.delivery_id = d.delivery_id
  WHERE d.tenant_id = $1
    AND ($2::uuid IS NULL OR d.endpoint_id = $2) AND ($3::uuid IS NULL OR d.event_id = $3)
    AND ($4::text IS NULL OR d.event_type = $4) AND ($5::text IS NULL OR d.state = $5)
    AND ($6::uuid IS NULL OR d.event_id >= $6) AND ($7::uuid IS NULL OR d.event_id < $7)
    AND ($8::uuid IS NULL OR (d.event_id, d.endpoint_id) < ($8, $9::uuid))
  ORDER BY d.event_id DESC, d.endpoint_id DESC LIMIT $10`);

const listUnsuccessful = plannedEachTime(
  list([]).text.replace('WHERE d.tenant_id = $1', 'WHERE d.tenant_id = $1 AND d.unsuccessful_at IS NOT NULL'),
);

/**
 * Newest event first. Indexes: primary key by tenant; deliveries_endpoint when the endpoint is given; deliveries_unsuccessful for
 * failed, dead and cancelled ones.
 */
export async function listDeliveries(
  db: Queryable,
  tenantId: TenantId,
  filter: DeliveryFilter,
  after: readonly [string, string] | null,
  limit: number,
): Promise<DeliveryRow[]> {
  const { endpointId, eventId, type, state, fromId, toId } = filter;
  const values = [
    tenantId,
    endpointId,
    eventId,
    type,
    state,
    fromId,
    toId,
    after?.[0] ?? null,
    after?.[1] ?? null,
    limit,
  ];
  const statement = state !== null && state !== 'succeeded' ? listUnsuccessful : list;
  return (await db.query<DeliveryRow>(statement(values))).rows;
}

const listOpen = plannedEachTime(`
  SELECT ${COLUMNS}
  FROM (SELECT endpoint_id FROM relayops.webhook_endpoints WHERE tenant_id = $1 AND ($2::uuid IS NULL OR endpoint_id = $2)) e
  CROSS JOIN LATERAL (
    SELECT * FROM relayops.delivery_work x
    WHERE x.endpoint_id = e.endpoint_id
      AND ($3::bool IS NULL OR coalesce(x.lease_until > now(), false) = $3)
      AND ($4::bigint IS NULL OR x.due_at >= to_timestamp(0) + $4 * interval '1 us')
      AND ($4::bigint IS NULL OR (x.due_at, x.delivery_id) > (to_timestamp(0) + $4 * interval '1 us', $5::uuid))
    ORDER BY x.due_at, x.delivery_id LIMIT $7) w
  JOIN relayops.deliveries d ON d.tenant_id = $1 AND d.event_id = w.event_id AND d.endpoint_id = w.endpoint_id
  WHERE ($6::text IS NULL OR d.event_type = $6)
  ORDER BY w.due_at, w.delivery_id LIMIT $7`);

/**
 * Open deliveries, the next due first: from the work table, one range an endpoint, since "open" is no index of the fact table.
 * Index: delivery_work_due. @param after due time in microseconds since the epoch, and delivery ID
 */
export async function listOpenDeliveries(
  db: Queryable,
  tenantId: TenantId,
  filter: {
    readonly endpointId: EndpointId | null;
    readonly type: string | null;
    readonly leased: boolean | null;
  },
  after: readonly [string, string] | null,
  limit: number,
): Promise<DeliveryRow[]> {
  const values = [
    tenantId,
    filter.endpointId,
    filter.leased,
    after?.[0] ?? null,
    after?.[1] ?? null,
    filter.type,
    limit,
  ];
  return (await db.query<DeliveryRow>(listOpen(values))).rows;
}

export interface AttemptRow {
  readonly attempt_number: number;
  readonly started_at: Date | null;
  readonly duration_ms: number | null;
  readonly outcome: string;
  readonly http_status: number | null;
  readonly error_code: string | null;
  readonly error_detail: string | null;
  readonly response_headers: Record<string, string> | null;
  readonly response_body: Buffer | null;
  readonly next_attempt_at: Date | null;
  readonly worker: string;
  readonly recorded_at: Date;
  readonly late_results: LateResult[] | null;
}

export interface LateResult {
  readonly outcome: string;
  readonly http_status: number | null;
  readonly error_code: string | null;
  readonly worker: string;
  readonly observed_at: string;
}

const attempts = prepared(`
  SELECT a.attempt_number, a.started_at, a.duration_ms, a.outcome, a.http_status, a.error_code, a.error_detail, a.response_headers,
         a.response_body, a.next_attempt_at, a.worker, a.recorded_at,
         (SELECT json_agg(json_build_object('outcome', l.outcome, 'http_status', l.http_status, 'error_code', l.error_code,
                                            'worker', l.worker, 'observed_at', l.observed_at) ORDER BY l.observed_at)
          FROM relayops.late_results l
          WHERE l.event_id = a.event_id AND l.delivery_id = a.delivery_id AND l.attempt_number = a.attempt_number) AS late_results
  FROM relayops.delivery_attempts a
  WHERE a.event_id = $1 AND a.delivery_id = $2 AND a.tenant_id = $3
  ORDER BY a.attempt_number`);

/** All attempts of one delivery, with what came too late. Index: primary key, one partition. */
export async function findAttempts(
  db: Queryable,
  tenantId: TenantId,
  eventId: EventId,
  deliveryId: DeliveryId,
): Promise<AttemptRow[]> {
  return (await db.query<AttemptRow>(attempts([eventId, deliveryId, tenantId]))).rows;
}

const cancel = prepared(`
  WITH removed AS (
    DELETE FROM relayops.delivery_work w WHERE w.delivery_id = $4 AND w.tenant_id = $1
    RETURNING w.event_id, w.delivery_id, w.tenant_id, w.endpoint_id, w.attempt_no, w.lease_token, w.leased_by
  ), in_flight AS (
    INSERT INTO relayops.delivery_attempts (event_id, delivery_id, attempt_number, tenant_id, endpoint_id, outcome, error_code, worker)
    SELECT event_id, delivery_id, attempt_no, tenant_id, endpoint_id, 'unknown', 'cancelled_in_flight', leased_by
    FROM removed WHERE lease_token IS NOT NULL
  )
  UPDATE relayops.deliveries d SET state = 'cancelled', reason = $5, finished_at = now(), unsuccessful_at = now()
  FROM removed r
  WHERE d.tenant_id = r.tenant_id AND d.event_id = r.event_id AND d.endpoint_id = r.endpoint_id AND d.event_id >= $2 AND d.event_id < $3
  RETURNING d.delivery_id`);

/**
 * Ends an open delivery. An attempt in flight is recorded as unknown: its request may still arrive, and its result will be fenced
 * off. Index: primary keys. @returns false when the delivery was not open (any more)
 */
export async function cancelDelivery(
  db: Queryable,
  tenantId: TenantId,
  deliveryId: DeliveryId,
  reason: string,
): Promise<boolean> {
  return (await db.query(cancel([tenantId, ...eventRange(deliveryId), deliveryId, reason]))).rowCount === 1;
}

const cancelOfEndpoint = prepared(`
  WITH picked AS MATERIALIZED (
    SELECT delivery_id FROM relayops.delivery_work
    WHERE endpoint_id = $1 AND (lease_until IS NULL OR lease_until <= now())
    ORDER BY due_at LIMIT $2 FOR UPDATE SKIP LOCKED
  ), removed AS (
    DELETE FROM relayops.delivery_work w USING picked p WHERE w.delivery_id = p.delivery_id
    RETURNING w.event_id, w.delivery_id, w.tenant_id, w.endpoint_id, w.attempt_no, w.lease_token, w.leased_by
  ), lost AS (
    INSERT INTO relayops.delivery_attempts (event_id, delivery_id, attempt_number, tenant_id, endpoint_id, outcome, error_code, worker)
    SELECT event_id, delivery_id, attempt_no, tenant_id, endpoint_id, 'unknown', 'worker_vanished', leased_by
    FROM removed WHERE lease_token IS NOT NULL
  )
  UPDATE relayops.deliveries d SET state = 'cancelled', reason = 'endpoint_deleted', finished_at = now(), unsuccessful_at = now()
  FROM removed r WHERE d.tenant_id = r.tenant_id AND d.event_id = r.event_id AND d.endpoint_id = r.endpoint_id`);

/** One bounded batch of a deleted endpoint's open deliveries. Index: delivery_work_due. @returns how many were cancelled */
export async function cancelForDeletedEndpoint(
  db: Queryable,
  endpointId: EndpointId,
  limit: number,
): Promise<number> {
  return (await db.query(cancelOfEndpoint([endpointId, limit]))).rowCount ?? 0;
}
