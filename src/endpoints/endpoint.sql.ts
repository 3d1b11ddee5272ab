import type { Queryable, Transaction } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import { type EndpointId, type TenantId, isId } from '../shared/ids.ts';
import type { TargetRow } from './target.ts';

/** An endpoint that is not deleted, without its secrets. */
export interface EndpointRow extends TargetRow {
  readonly name: string;
  readonly state_reason: string | null;
  readonly created_at: Date;
  readonly updated_at: Date;
}

/** The columns that the owner of an endpoint sets. */
export type EndpointSettings = Pick<
  EndpointRow,
  | 'name'
  | 'url'
  | 'sealed_headers'
  | 'max_concurrency'
  | 'rate_per_second'
  | 'rate_burst'
  | 'timeout_ms'
  | 'max_attempts'
  | 'backoff_base_ms'
  | 'backoff_factor'
  | 'backoff_cap_ms'
>;

export type CountedEndpointRow = EndpointRow & {
  readonly subscription_count: number;
  /** The row of endpoint_health; null while its last attempt was no failure. */
  readonly health: {
    readonly failures: number;
    readonly failing_since: string;
    readonly open_until: string | null;
  } | null;
};

const COLUMNS = `endpoint_id, tenant_id, version, name, url, state, state_reason, headers, sealed_headers, max_concurrency, rate_per_second, rate_burst,
  timeout_ms, max_attempts, backoff_base_ms, backoff_factor, backoff_cap_ms, created_at, updated_at, deleted_at`;
/** Index: endpoint_subscriptions_endpoint; at most 100 entries an endpoint. */
const COUNTED = `${COLUMNS}, (SELECT count(*) FROM relayops.endpoint_subscriptions s
  WHERE s.endpoint_id = webhook_endpoints.endpoint_id)::int AS subscription_count,
  (SELECT to_jsonb(h) FROM relayops.endpoint_health h WHERE h.endpoint_id = webhook_endpoints.endpoint_id) AS health`;

function settingValues(settings: EndpointSettings): unknown[] {
  return [
    settings.name,
    settings.url,
    JSON.stringify(settings.sealed_headers),
    settings.max_concurrency,
    settings.rate_per_second,
    settings.rate_burst,
    settings.timeout_ms,
    settings.max_attempts,
    settings.backoff_base_ms,
    settings.backoff_factor,
    settings.backoff_cap_ms,
  ];
}

const LOCK_COUNT = prepared(
  `SELECT pg_advisory_xact_lock(hashtextextended('relayops.webhook_endpoints/' || $1::text, 0))`,
);
const COUNT = prepared(`
  SELECT count(*)::int AS count FROM (
    SELECT FROM relayops.webhook_endpoints WHERE tenant_id = $1 AND deleted_at IS NULL LIMIT $2) AS found`);
/**
 * How many endpoints the tenant has, counted up to `limit`. Takes a lock that those who make endpoints of this tenant, and nobody
 * else, wait for until the transaction ends; the count is a statement of its own, so that it sees what the lock waited for.
 * Index: webhook_endpoints_tenant.
 */
export async function countEndpointsLocked(
  tx: Transaction,
  tenantId: TenantId,
  limit: number,
): Promise<number> {
  await tx.query(LOCK_COUNT([tenantId]));
  const { rows } = await tx.query<{ count: number }>(COUNT([tenantId, limit]));
  return rows[0]!.count;
}

const INSERT = prepared(`
  INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, state, name, url, sealed_headers, max_concurrency, rate_per_second,
    rate_burst, timeout_ms, max_attempts, backoff_base_ms, backoff_factor, backoff_cap_ms)
  VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)
  RETURNING ${COLUMNS}`);
export async function insertEndpoint(
  tx: Transaction,
  tenantId: TenantId,
  endpointId: EndpointId,
  state: 'active' | 'paused',
  settings: EndpointSettings,
): Promise<EndpointRow> {
  const { rows } = await tx.query<EndpointRow>(
    INSERT([endpointId, tenantId, state, ...settingValues(settings)]),
  );
  return rows[0]!;
}

const FIND = prepared(`
  SELECT ${COUNTED} FROM relayops.webhook_endpoints WHERE tenant_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL`);
/** Index: primary key, or webhook_endpoints_tenant. */
export async function findEndpoint(
  db: Queryable,
  tenantId: TenantId,
  endpointId: EndpointId,
): Promise<CountedEndpointRow | undefined> {
  const { rows } = await db.query<CountedEndpointRow>(FIND([tenantId, endpointId]));
  return rows[0];
}

const LIST = prepared(`
  SELECT ${COUNTED} FROM relayops.webhook_endpoints
  WHERE tenant_id = $1 AND deleted_at IS NULL AND ($2::uuid IS NULL OR endpoint_id < $2) AND ($3::text IS NULL OR state = $3)
  ORDER BY endpoint_id DESC LIMIT $4`);
/** Newest first. Index: webhook_endpoints_tenant, backwards; the state is looked at in the row. */
export async function listEndpoints(
  db: Queryable,
  tenantId: TenantId,
  page: { readonly before: string | null; readonly state: string | null; readonly limit: number },
): Promise<CountedEndpointRow[]> {
  const { rows } = await db.query<CountedEndpointRow>(LIST([tenantId, page.before, page.state, page.limit]));
  return rows;
}

const LOCK = prepared(`
  SELECT ${COLUMNS} FROM relayops.webhook_endpoints
  WHERE tenant_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE`);
/** Index as `findEndpoint`. Locks the row until the transaction ends, so that two changes take turns and none is lost. */
export async function lockEndpoint(
  tx: Transaction,
  tenantId: TenantId,
  endpointId: EndpointId,
): Promise<EndpointRow | undefined> {
  const { rows } = await tx.query<EndpointRow>(LOCK([tenantId, endpointId]));
  return rows[0];
}

const UPDATE = prepared(`
  UPDATE relayops.webhook_endpoints SET name = $3, url = $4, sealed_headers = $5, headers = '{}', max_concurrency = $6, rate_per_second = $7,
    rate_burst = $8, timeout_ms = $9, max_attempts = $10, backoff_base_ms = $11, backoff_factor = $12, backoff_cap_ms = $13,
    version = version + 1, updated_at = now()
  WHERE tenant_id = $1 AND endpoint_id = $2
  RETURNING ${COUNTED}`);
/** Writes all settings of an endpoint that the transaction has locked. Index as `findEndpoint`. */
export async function updateEndpoint(
  tx: Transaction,
  tenantId: TenantId,
  endpointId: EndpointId,
  settings: EndpointSettings,
): Promise<CountedEndpointRow> {
  const { rows } = await tx.query<CountedEndpointRow>(
    UPDATE([tenantId, endpointId, ...settingValues(settings)]),
  );
  return rows[0]!;
}

const SET_STATE = prepared(`
  WITH forgotten AS (
    DELETE FROM relayops.endpoint_health h USING relayops.webhook_endpoints e
    WHERE $3 = 'active' AND e.tenant_id = $1 AND e.endpoint_id = $2 AND h.endpoint_id = e.endpoint_id AND e.deleted_at IS NULL
  )
  UPDATE relayops.webhook_endpoints SET state = $3, state_reason = $4::text, version = version + 1, updated_at = now()
  WHERE tenant_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL
    AND (state <> $3 OR ($4::text IS NOT NULL AND state_reason IS DISTINCT FROM $4::text))`);
/** Activating forgets past failures. Otherwise changes nothing when the state, and the reason if one is given, are so already. Index as `findEndpoint`. */
export async function setEndpointState(
  db: Queryable,
  tenantId: TenantId,
  endpointId: EndpointId,
  state: EndpointRow['state'],
  reason: string | null,
): Promise<void> {
  await db.query(SET_STATE([tenantId, endpointId, state, reason]));
}

const TOUCH = prepared(`
  UPDATE relayops.webhook_endpoints SET version = version + 1, updated_at = now()
  WHERE tenant_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL`);
/**
 * Says that something which belongs to the endpoint changes in this transaction, and locks its row until the end, so that such
 * changes take turns. Index as `findEndpoint`.
 * @returns false when the tenant has no such endpoint
 */
export async function touchEndpoint(
  tx: Transaction,
  tenantId: TenantId,
  endpointId: EndpointId,
): Promise<boolean> {
  return (await tx.query(TOUCH([tenantId, endpointId]))).rowCount === 1;
}

const DELETE = prepared(`
  UPDATE relayops.webhook_endpoints SET deleted_at = now(), headers = '{}', sealed_headers = '{}', version = version + 1, updated_at = now()
  WHERE tenant_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL`);
/** The row stays, because deliveries name it. Index as `findEndpoint`. @returns whether it was this call that deleted it */
export async function markEndpointDeleted(
  tx: Transaction,
  tenantId: TenantId,
  endpointId: EndpointId,
): Promise<boolean> {
  return (await tx.query(DELETE([tenantId, endpointId]))).rowCount === 1;
}

const EXISTS = prepared(
  'SELECT FROM relayops.webhook_endpoints WHERE tenant_id = $1 AND endpoint_id = $2 AND deleted_at IS NULL',
);
/** Whether the tenant has this endpoint and has not deleted it. A malformed ID is one that does not exist. Index as `findEndpoint`. */
export async function endpointExists(
  db: Queryable,
  tenantId: TenantId,
  endpointId: string,
): Promise<boolean> {
  return isId(endpointId) && (await db.query(EXISTS([tenantId, endpointId]))).rowCount === 1;
}

const DELETED = prepared(`
  SELECT endpoint_id FROM relayops.webhook_endpoints
  WHERE deleted_at IS NOT NULL AND ($2::uuid IS NULL OR endpoint_id > $2)
  ORDER BY endpoint_id LIMIT $1`);
/**
 * Deleted endpoints of all tenants in the order of their IDs, for the janitor, which ends their open deliveries. Index:
 * webhook_endpoints_deleted, sorted.
 * @param after the last ID of the page before
 */
export async function findDeletedEndpointIds(
  db: Queryable,
  limit: number,
  after: EndpointId | null = null,
): Promise<EndpointId[]> {
  const { rows } = await db.query<{ endpoint_id: EndpointId }>(DELETED([limit, after]));
  return rows.map((row) => row.endpoint_id);
}
