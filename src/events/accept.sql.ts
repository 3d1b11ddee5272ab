import type { Queryable } from '../platform/db/database.ts';
import { plainArray, prepared, textArray } from '../platform/db/sql.ts';
import type { DeliveryId, EndpointId, EventId, TenantId } from '../shared/ids.ts';
import type { IncomingEvent } from './incoming.ts';

/** An event with its ID and its frozen set of deliveries, ready to be written. */
export interface RoutedEvent {
  readonly eventId: EventId;
  readonly event: IncomingEvent;
  /** Present when the event has an idempotency key. */
  readonly bodyHash: Buffer | null;
  readonly routingVersion: number;
  readonly deliveryCount: number;
}

/** One delivery of an event that is written with it. */
export interface NewDelivery {
  readonly deliveryId: DeliveryId;
  readonly eventId: EventId;
  readonly endpointId: EndpointId;
  /** Set: the filter could not be evaluated, and the delivery is stored as failed. */
  readonly filterError: string | null;
}

export interface AcceptedRow {
  readonly event_id: EventId;
  readonly accepted_at: Date;
}

/**
 * Writes a group of events with all that they cause: idempotency keys, events, deliveries and work, one statement, one commit
 * (SPEC C2). Returns the events that were written. What is missing either has a key that is taken, or was routed by a table that
 * is no longer current: the routing version is compared here, in the same snapshot.
 *
 * Indexes: primary keys only; the routing version is a sub-select, so that it stays a probe of its key and what is joined are the lists of
 * this statement alone, by hash. Locks: keys are inserted in sorted order, so that two groups cannot deadlock; a concurrent holder of
 * the same key is waited for. Payloads travel as one binary parameter and are cut apart here, because hex text in an array would
 * be twice the bytes. An expired key that the janitor has not removed yet is taken over.
 * On a broker transport each delivery gets its outbox row, claimed by this process when it will publish it itself.
 */
const accept = prepared(`
  WITH input AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::uuid[], $3::bigint[], $4::text[], $5::text[], $6::int[], $7::int[], $8::text[], $9::int[],
                         $10::text[], $11::text[], $12::text[], $13::timestamptz[], $14::int[])
      AS i (event_id, tenant_id, routing_version, type, content_type, payload_at, payload_bytes, idempotency_key, hash_at,
            format, attributes, traceparent, occurred_at, delivery_count)
  ), current AS MATERIALIZED (
    SELECT i.* FROM input i
    WHERE i.routing_version = coalesce((SELECT v.version FROM relayops.routing_versions v WHERE v.tenant_id = i.tenant_id), 0)
  ), keys AS (
    INSERT INTO relayops.idempotency_keys AS k (tenant_id, key, event_id, body_hash, expires_at)
    SELECT tenant_id, idempotency_key, event_id, substring($15::bytea FROM hash_at + 1 FOR 32), now() + $16 * interval '1 s'
    FROM current WHERE idempotency_key IS NOT NULL ORDER BY tenant_id, idempotency_key
    ON CONFLICT (tenant_id, key) DO UPDATE
      SET event_id = excluded.event_id, body_hash = excluded.body_hash, expires_at = excluded.expires_at
      WHERE k.expires_at <= now()
    RETURNING event_id
  ), written AS (
    INSERT INTO relayops.events (tenant_id, event_id, type, content_type, payload, idempotency_key, format, attributes, traceparent,
                                 occurred_at, delivery_count)
    SELECT tenant_id, event_id, type, content_type, substring($15::bytea FROM payload_at + 1 FOR payload_bytes), idempotency_key,
           format, attributes::jsonb, traceparent, occurred_at, delivery_count
    FROM current c WHERE idempotency_key IS NULL OR EXISTS (SELECT 1 FROM keys k WHERE k.event_id = c.event_id)
    RETURNING event_id, tenant_id, type, accepted_at
  ), routed AS MATERIALIZED (
    SELECT d.delivery_id, w.event_id, w.tenant_id, w.type, d.endpoint_id, d.filter_error
    FROM unnest($17::uuid[], $18::uuid[], $19::uuid[], $20::text[]) AS d (delivery_id, event_id, endpoint_id, filter_error)
    JOIN written w USING (event_id)
  ), facts AS (
    INSERT INTO relayops.deliveries (tenant_id, event_id, endpoint_id, delivery_id, event_type, state, reason, finished_at, unsuccessful_at)
    SELECT tenant_id, event_id, endpoint_id, delivery_id, type,
           CASE WHEN filter_error IS NULL THEN 'open' ELSE 'failed' END, 'filter_error: ' || filter_error,
           CASE WHEN filter_error IS NOT NULL THEN now() END, CASE WHEN filter_error IS NOT NULL THEN now() END
    FROM routed
  ), work AS (
    INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at)
    SELECT delivery_id, event_id, tenant_id, endpoint_id, now() FROM routed WHERE filter_error IS NULL
  ), outbox AS (
    INSERT INTO relayops.outbox_messages (outbox_id, delivery_id, endpoint_id, claimed_by, claimed_until)
    SELECT delivery_id, delivery_id, endpoint_id, $22, now() + $23::float8 * interval '1 ms' FROM routed WHERE $21 AND filter_error IS NULL
  )
  SELECT event_id, accepted_at FROM written`);

/** Whether outbox rows are written, and for whom: null for whoever claims them. */
export interface OutboxRows {
  readonly claim: { readonly publisher: string; readonly ms: number } | null;
}

export async function insertEvents(
  db: Queryable,
  rows: readonly RoutedEvent[],
  deliveries: readonly NewDelivery[],
  idempotencyTtlS: number,
  outbox: OutboxRows | null,
): Promise<AcceptedRow[]> {
  const parts: Buffer[] = [];
  let at = 0;
  const place = (part: Buffer): number => {
    const offset = at;
    parts.push(part);
    at += part.length;
    return offset;
  };
  const payloadAt = rows.map((row) => place(row.event.payload));
  const hashAt = rows.map((row) => (row.bodyHash === null ? null : place(row.bodyHash)));
  const result = await db.query<AcceptedRow>(
    accept([
      plainArray(rows.map((row) => row.eventId)),
      plainArray(rows.map((row) => row.event.tenantId)),
      plainArray(rows.map((row) => row.routingVersion)),
      textArray(rows.map((row) => row.event.type)),
      textArray(rows.map((row) => row.event.contentType)),
      plainArray(payloadAt),
      plainArray(rows.map((row) => row.event.payload.length)),
      textArray(rows.map((row) => row.event.idempotencyKey)),
      plainArray(hashAt),
      plainArray(rows.map((row) => row.event.format)),
      textArray(
        rows.map((row) => (row.event.attributes === null ? null : JSON.stringify(row.event.attributes))),
      ),
      textArray(rows.map((row) => row.event.traceparent)),
      textArray(rows.map((row) => row.event.occurredAt?.toISOString())),
      plainArray(rows.map((row) => row.deliveryCount)),
      Buffer.concat(parts, at),
      idempotencyTtlS,
      plainArray(deliveries.map((delivery) => delivery.deliveryId)),
      plainArray(deliveries.map((delivery) => delivery.eventId)),
      plainArray(deliveries.map((delivery) => delivery.endpointId)),
      textArray(deliveries.map((delivery) => delivery.filterError)),
      outbox !== null,
      outbox?.claim?.publisher ?? null,
      outbox?.claim?.ms ?? null,
    ]),
  );
  return result.rows;
}

export interface OriginalRow {
  readonly tenant_id: TenantId;
  readonly key: string;
  readonly event_id: EventId;
  readonly body_hash: Buffer;
  /** Null when the event has left by retention while its key still lives. */
  readonly accepted_at: Date | null;
  readonly delivery_count: number | null;
}

const originals = prepared(`
  SELECT k.tenant_id, k.key, k.event_id, k.body_hash, e.accepted_at, e.delivery_count
  FROM unnest($1::uuid[], $2::text[]) AS w (tenant_id, key)
  CROSS JOIN LATERAL (SELECT * FROM relayops.idempotency_keys i WHERE i.tenant_id = w.tenant_id AND i.key = w.key LIMIT 1) k
  LEFT JOIN LATERAL (SELECT * FROM relayops.events v WHERE v.tenant_id = k.tenant_id AND v.event_id = k.event_id LIMIT 1) e ON true`);

/** The events that hold the given keys. Index: primary keys, one probe a key (LATERAL, LIMIT), whatever the planner believes of the tables' size. Runs after the insert, so that it sees what that waited for. */
export async function findOriginals(
  db: Queryable,
  wanted: readonly { readonly tenantId: TenantId; readonly key: string }[],
): Promise<OriginalRow[]> {
  const values = [plainArray(wanted.map((row) => row.tenantId)), textArray(wanted.map((row) => row.key))];
  return (await db.query<OriginalRow>(originals(values))).rows;
}

const existing = prepared(`
  SELECT e.event_id, e.accepted_at
  FROM unnest($1::uuid[], $2::uuid[]) AS w (tenant_id, event_id)
  CROSS JOIN LATERAL (SELECT * FROM relayops.events v WHERE v.tenant_id = w.tenant_id AND v.event_id = w.event_id LIMIT 1) e`);

/** Which of these events are stored: asked after a commit whose answer was lost. Index: primary key. */
export async function findStored(db: Queryable, rows: readonly RoutedEvent[]): Promise<AcceptedRow[]> {
  const values = [
    plainArray(rows.map((row) => row.event.tenantId)),
    plainArray(rows.map((row) => row.eventId)),
  ];
  return (await db.query<AcceptedRow>(existing(values))).rows;
}
