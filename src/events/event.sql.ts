import type { Queryable } from '../platform/db/database.ts';
import { plannedEachTime, prepared } from '../platform/db/sql.ts';
import type { EventId, TenantId } from '../shared/ids.ts';
import type { EventFormat } from './incoming.ts';

export interface EventRow {
  readonly event_id: EventId;
  readonly type: string;
  readonly content_type: string;
  readonly payload_bytes: number;
  readonly idempotency_key: string | null;
  readonly format: EventFormat;
  readonly attributes: Record<string, string> | null;
  readonly traceparent: string | null;
  readonly occurred_at: Date | null;
  readonly accepted_at: Date;
  readonly delivery_count: number;
}

const COLUMNS = `event_id, type, content_type, octet_length(payload) AS payload_bytes, idempotency_key, format, attributes,
  traceparent, occurred_at, accepted_at, delivery_count`;

const one = prepared(`SELECT ${COLUMNS} FROM relayops.events WHERE tenant_id = $1 AND event_id = $2`);

/** Index: primary key, one partition. */
export async function findEvent(
  db: Queryable,
  tenantId: TenantId,
  eventId: EventId,
): Promise<EventRow | undefined> {
  return (await db.query<EventRow>(one([tenantId, eventId]))).rows[0];
}

const payload = prepared(
  `SELECT payload, content_type FROM relayops.events WHERE tenant_id = $1 AND event_id = $2`,
);

/** The exact bytes. Index: primary key, one partition. */
export async function findPayload(
  db: Queryable,
  tenantId: TenantId,
  eventId: EventId,
): Promise<{ payload: Buffer; content_type: string } | undefined> {
  return (await db.query<{ payload: Buffer; content_type: string }>(payload([tenantId, eventId]))).rows[0];
}

export interface EventFilter {
  readonly type: string | null;
  /** Bounds as event IDs: the time is in the key. */
  readonly fromId: string | null;
  readonly beforeId: string | null;
}

const list = plannedEachTime(`
  SELECT ${COLUMNS} FROM relayops.events
  WHERE tenant_id = $1
    AND ($2::uuid IS NULL OR event_id >= $2) AND ($3::uuid IS NULL OR event_id < $3)
    AND ($4::text IS NULL OR type = $4)
  ORDER BY event_id DESC LIMIT $5`);

/** Newest first. Index: primary key, read backwards, partition by partition until the page is full. */
export async function listEvents(
  db: Queryable,
  tenantId: TenantId,
  filter: EventFilter,
  limit: number,
): Promise<EventRow[]> {
  return (await db.query<EventRow>(list([tenantId, filter.fromId, filter.beforeId, filter.type, limit])))
    .rows;
}

const expired = prepared(`
  DELETE FROM relayops.idempotency_keys WHERE expires_at <= now() AND (tenant_id, key) IN (
    SELECT tenant_id, key FROM relayops.idempotency_keys WHERE expires_at <= now() LIMIT $1)`);

/** One bounded batch; a key that acceptance takes over meanwhile is looked at again and stays. Index: idempotency_keys_expiry (block ranges). @returns how many were removed */
export async function deleteExpiredKeys(db: Queryable, limit: number): Promise<number> {
  return (await db.query(expired([limit]))).rowCount ?? 0;
}
