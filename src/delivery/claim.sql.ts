import type { Queryable } from '../platform/db/database.ts';
import { plainArray, prepared } from '../platform/db/sql.ts';
import type { DeliveryId, EndpointId, EventId, TenantId } from '../shared/ids.ts';

/** What one endpoint may be given by a claim. */
export interface ClaimWant {
  readonly endpointId: EndpointId;
  readonly slots: number;
  /** Milliseconds since the epoch (database time) before which nothing is looked at; 0 looks at everything. */
  readonly floorMs: number;
}

export interface ClaimedRow {
  readonly delivery_id: DeliveryId;
  readonly event_id: EventId;
  readonly tenant_id: TenantId;
  readonly endpoint_id: EndpointId;
  readonly lease_token: string;
  readonly attempt_no: number;
  readonly prior_attempts: number;
  /** The worker of the attempt before this one vanished; it was recorded as unknown. */
  readonly after_lost: boolean;
  readonly due_ms: number;
  readonly type: string | null;
  readonly content_type: string;
  readonly payload: Buffer | null;
  readonly payload_bytes: number;
  readonly attributes: Record<string, string> | null;
  readonly traceparent: string | null;
  readonly accepted_ms: number;
}

/**
 * Leases the rows that `picked` names by their place (ctid), and reads what is needed to send them. Each event is found for itself
 * (LATERAL, LIMIT), since joins by key would leave the planner the choice to read a whole index, which it takes for free when it plans
 * on an empty table. The update touches no indexed column (HOT). The lease token comes from a sequence, never from the attempt number.
 *
 * A row with an expired lease had a worker that vanished: its attempt is recorded as `unknown` in this same statement (SPEC D3).
 */
const LEASE_PICKED = `
  claimed AS (
    UPDATE relayops.delivery_work d
    SET lease_token = nextval('relayops.lease_tokens'), lease_until = now() + $1 * interval '1 ms', leased_by = $2,
        attempt_no = d.attempt_no + 1
    FROM picked p WHERE d.ctid = p.tid
    RETURNING d.delivery_id, d.event_id, d.tenant_id, d.endpoint_id, d.lease_token, d.attempt_no, d.prior_attempts, d.due_at,
              p.lost_token, p.lost_worker
  ), lost AS (
    INSERT INTO relayops.delivery_attempts (event_id, delivery_id, attempt_number, tenant_id, endpoint_id, outcome, error_code, worker)
    SELECT event_id, delivery_id, attempt_no - 1, tenant_id, endpoint_id, 'unknown', 'worker_vanished', lost_worker
    FROM claimed WHERE lost_token IS NOT NULL
  )
  SELECT c.delivery_id, c.event_id, c.tenant_id, c.endpoint_id, c.lease_token::text AS lease_token, c.attempt_no, c.prior_attempts, c.lost_token IS NOT NULL AS after_lost,
         extract(epoch FROM c.due_at)::float8 * 1000 AS due_ms, e.type, e.content_type,
         CASE WHEN octet_length(e.payload) <= $3 THEN e.payload END AS payload, octet_length(e.payload) AS payload_bytes,
         e.attributes, e.traceparent, extract(epoch FROM e.accepted_at)::float8 * 1000 AS accepted_ms
  FROM claimed c LEFT JOIN LATERAL (
    SELECT * FROM relayops.events v WHERE v.tenant_id = c.tenant_id AND v.event_id = c.event_id LIMIT 1) e ON true`;

/** How long, and for whom, rows are leased. */
export interface Lease {
  readonly ms: number;
  readonly worker: string;
}

/**
 * Leases due deliveries to this process, each endpoint up to its free slots, in one short statement (SPEC F1).
 *
 * Index: delivery_work_due, one range an endpoint from its floor on, so that a million rows of a dead endpoint cost the others
 * nothing, and dead index entries below the floor are not waded through. MATERIALIZED: a nested loop could run the sub-select
 * again and take more than the limit. SKIP LOCKED: claimers do not wait for each other.
 */
const claimByEndpoint = prepared(`
  WITH want AS (
    SELECT * FROM unnest($4::uuid[], $5::int[], $6::float8[]) AS w (endpoint_id, slots, floor_ms)
  ), picked AS MATERIALIZED (
    SELECT p.* FROM want w CROSS JOIN LATERAL (
      SELECT d.ctid AS tid, d.lease_token AS lost_token, d.leased_by AS lost_worker
      FROM relayops.delivery_work d
      WHERE d.endpoint_id = w.endpoint_id AND d.due_at >= to_timestamp(w.floor_ms / 1000) AND d.due_at <= now()
        AND (d.lease_until IS NULL OR d.lease_until <= now())
      ORDER BY d.due_at LIMIT w.slots FOR UPDATE SKIP LOCKED) p
  ), ${LEASE_PICKED}`);

export async function claimWork(
  db: Queryable,
  wants: readonly ClaimWant[],
  lease: Lease,
  inlinePayloadBytes: number,
): Promise<ClaimedRow[]> {
  const result = await db.query<ClaimedRow>(
    claimByEndpoint([
      lease.ms,
      lease.worker,
      inlinePayloadBytes,
      plainArray(wants.map((want) => want.endpointId)),
      plainArray(wants.map((want) => want.slots)),
      plainArray(wants.map((want) => want.floorMs)),
    ]),
  );
  return result.rows;
}

const claimById = prepared(`
  WITH picked AS MATERIALIZED (
    SELECT p.* FROM unnest($4::uuid[], $5::uuid[]) AS w (delivery_id, endpoint_id) CROSS JOIN LATERAL (
      SELECT d.ctid AS tid, d.lease_token AS lost_token, d.leased_by AS lost_worker
      FROM relayops.delivery_work d
      WHERE d.delivery_id = w.delivery_id AND d.endpoint_id = w.endpoint_id AND d.due_at <= now() AND (d.lease_until IS NULL OR d.lease_until <= now())
      LIMIT 1 FOR UPDATE SKIP LOCKED) p
  ), ${LEASE_PICKED}`);

/**
 * Leases those of the named deliveries that are due and in nobody's hands. Index: primary key, one probe each. A row that another
 * statement holds is passed over, as in `claimWork`.
 * @param wanted each once; one whose endpoint is another in the database is not leased, since its permit would be the wrong one
 */
export async function claimDeliveries(
  db: Queryable,
  wanted: readonly { readonly deliveryId: DeliveryId; readonly endpointId: EndpointId }[],
  lease: Lease,
  inlinePayloadBytes: number,
): Promise<ClaimedRow[]> {
  const values = [
    lease.ms,
    lease.worker,
    inlinePayloadBytes,
    plainArray(wanted.map((delivery) => delivery.deliveryId)),
    plainArray(wanted.map((delivery) => delivery.endpointId)),
  ];
  return (await db.query<ClaimedRow>(claimById(values))).rows;
}

const openWork = prepared(`
  SELECT d.delivery_id, extract(epoch FROM greatest(d.due_at, d.lease_until) - now())::float8 * 1000 AS in_ms
  FROM unnest($1::uuid[]) AS w (delivery_id)
  CROSS JOIN LATERAL (SELECT * FROM relayops.delivery_work o WHERE o.delivery_id = w.delivery_id LIMIT 1) d`);

/** Which of these deliveries are still open, and in how many milliseconds each can be claimed at the earliest. Index: primary key. */
export async function findOpen(
  db: Queryable,
  deliveryIds: readonly DeliveryId[],
): Promise<{ delivery_id: DeliveryId; in_ms: number }[]> {
  const result = await db.query<{ delivery_id: DeliveryId; in_ms: number }>(
    openWork([plainArray(deliveryIds)]),
  );
  return result.rows;
}

/** An endpoint that has claimable work, now or later. */
export interface Lane {
  readonly endpoint_id: EndpointId;
  /** Database time in milliseconds since the epoch. */
  readonly due_ms: number;
  /** Milliseconds until then; not above 0 when it is due. */
  readonly in_ms: number;
}

/**
 * Every endpoint with claimable work and the earliest due time there: a loose scan of delivery_work_due, one step an endpoint.
 * It starts each endpoint at its beginning, so it also finds what committed late and what lies below a floor; dead index entries
 * make it slow while something holds back vacuum, hence it is paced by its own duration.
 */
const sweep = prepared(`
  WITH RECURSIVE lanes AS (
    (SELECT endpoint_id FROM relayops.delivery_work ORDER BY endpoint_id LIMIT 1)
    UNION ALL
    SELECT (SELECT w.endpoint_id FROM relayops.delivery_work w WHERE w.endpoint_id > l.endpoint_id ORDER BY w.endpoint_id LIMIT 1)
    FROM lanes l WHERE l.endpoint_id IS NOT NULL
  )
  SELECT l.endpoint_id, extract(epoch FROM f.due_at)::float8 * 1000 AS due_ms, extract(epoch FROM f.due_at - now())::float8 * 1000 AS in_ms
  FROM lanes l CROSS JOIN LATERAL (
    SELECT w.due_at FROM relayops.delivery_work w
    WHERE w.endpoint_id = l.endpoint_id AND (w.lease_until IS NULL OR w.lease_until <= now())
    ORDER BY w.due_at LIMIT 1) f
  WHERE l.endpoint_id IS NOT NULL`);

export async function sweepLanes(db: Queryable): Promise<Lane[]> {
  return (await db.query<Lane>(sweep([]))).rows;
}

const sweepSome = prepared(`
  SELECT l.endpoint_id, extract(epoch FROM f.due_at)::float8 * 1000 AS due_ms, extract(epoch FROM f.due_at - now())::float8 * 1000 AS in_ms
  FROM unnest($1::uuid[], $2::float8[]) AS l (endpoint_id, floor_ms) CROSS JOIN LATERAL (
    SELECT w.due_at FROM relayops.delivery_work w
    WHERE w.endpoint_id = l.endpoint_id AND w.due_at >= to_timestamp(l.floor_ms / 1000)
      AND (w.lease_until IS NULL OR w.lease_until <= now())
    ORDER BY w.due_at LIMIT 1) f`);

/**
 * The earliest claimable work of endpoints that are known, from a floor each: finds what committed late without wading through the dead
 * entries below. Index: delivery_work_due.
 */
export async function sweepFromFloors(
  db: Queryable,
  lanes: readonly { readonly endpointId: EndpointId; readonly floorMs: number }[],
): Promise<Lane[]> {
  const values = [
    plainArray(lanes.map((lane) => lane.endpointId)),
    plainArray(lanes.map((lane) => lane.floorMs)),
  ];
  return (await db.query<Lane>(sweepSome(values))).rows;
}

const nextDue = prepared(`
  SELECT l.endpoint_id, extract(epoch FROM f.due_at)::float8 * 1000 AS due_ms, extract(epoch FROM f.due_at - now())::float8 * 1000 AS in_ms
  FROM unnest($1::uuid[]) AS l (endpoint_id) CROSS JOIN LATERAL (
    SELECT w.due_at FROM relayops.delivery_work w
    WHERE w.endpoint_id = l.endpoint_id AND w.due_at > now() ORDER BY w.due_at LIMIT 1) f`);

/** The next due time in the future of each endpoint that has one. Index: delivery_work_due, past all dead entries. */
export async function findNextDue(db: Queryable, endpointIds: readonly EndpointId[]): Promise<Lane[]> {
  return (await db.query<Lane>(nextDue([plainArray(endpointIds)]))).rows;
}
