import type { Queryable } from '../platform/db/database.ts';
import { plainArray, prepared } from '../platform/db/sql.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';
import type { SubscriptionRow } from './routing.ts';
import type { HealthColumns, TargetRow } from './target.ts';

const HEALTH = `h.failures, extract(epoch FROM h.open_until - now())::float8 * 1000 AS open_for_ms`;
const JOIN_HEALTH = `LEFT JOIN LATERAL (SELECT * FROM relayops.endpoint_health o WHERE o.endpoint_id = e.endpoint_id LIMIT 1) h ON true`;

export interface TargetWithSecrets extends TargetRow, HealthColumns {
  readonly secrets: { ciphertext: string; expires_at: string | null }[];
}

const targets = prepared(`
  SELECT e.endpoint_id, e.tenant_id, e.version, e.url, e.state, e.headers, e.sealed_headers, e.max_concurrency, e.rate_per_second, e.rate_burst,
         e.timeout_ms, e.max_attempts, e.backoff_base_ms, e.backoff_factor, e.backoff_cap_ms, e.deleted_at, ${HEALTH},
         coalesce((SELECT json_agg(json_build_object('ciphertext', encode(s.ciphertext, 'base64'), 'expires_at', s.expires_at)
                          ORDER BY s.created_at DESC)
                   FROM relayops.endpoint_secrets s
                   WHERE s.endpoint_id = e.endpoint_id AND (s.expires_at IS NULL OR s.expires_at > now())), '[]') AS secrets
  FROM relayops.webhook_endpoints e ${JOIN_HEALTH}
  WHERE e.endpoint_id = ANY($1::uuid[])`);

/** Endpoints by ID over all tenants, for the delivery machinery only. Index: primary key. */
export async function findTargets(db: Queryable, ids: readonly EndpointId[]): Promise<TargetWithSecrets[]> {
  return (await db.query<TargetWithSecrets>(targets([plainArray(ids)]))).rows;
}

const versions = prepared(
  `SELECT e.endpoint_id, e.version, ${HEALTH} FROM relayops.webhook_endpoints e ${JOIN_HEALTH} WHERE e.endpoint_id = ANY($1::uuid[])`,
);

export interface EndpointVersion extends HealthColumns {
  readonly endpoint_id: EndpointId;
  readonly version: number;
}

/** What may have changed since a target was read. Index: primary keys. */
export async function findVersions(db: Queryable, ids: readonly EndpointId[]): Promise<EndpointVersion[]> {
  return (await db.query<EndpointVersion>(versions([plainArray(ids)]))).rows;
}

const routing = prepared(`
  SELECT coalesce((SELECT version FROM relayops.routing_versions WHERE tenant_id = $1), 0) AS version,
         coalesce((SELECT json_agg(json_build_object('endpointId', s.endpoint_id, 'pattern', s.pattern, 'filter', s.filter)
                          ORDER BY s.endpoint_id, s.subscription_id)
                   FROM relayops.endpoint_subscriptions s JOIN relayops.webhook_endpoints e USING (endpoint_id)
                   WHERE s.tenant_id = $1 AND e.deleted_at IS NULL), '[]') AS rows`);

/** Version and subscriptions in one statement, hence one snapshot. Index: endpoint_subscriptions_tenant. */
export async function findRouting(
  db: Queryable,
  tenantId: TenantId,
): Promise<{ version: number; rows: SubscriptionRow[] }> {
  const { rows } = await db.query<{ version: number; rows: SubscriptionRow[] }>(routing([tenantId]));
  return rows[0] ?? { version: 0, rows: [] };
}

const bump = prepared(`
  INSERT INTO relayops.routing_versions AS v (tenant_id) VALUES ($1)
  ON CONFLICT (tenant_id) DO UPDATE SET version = v.version + 1`);

/** To be called in every transaction that changes endpoints or subscriptions in a way that matters to routing. */
export async function bumpRoutingVersion(db: Queryable, tenantId: TenantId): Promise<void> {
  await db.query(bump([tenantId]));
}

const disable = prepared(`
  WITH disabled AS (
    UPDATE relayops.webhook_endpoints SET state = 'disabled', state_reason = $3, version = version + 1, updated_at = now()
    WHERE endpoint_id = $1 AND version = $2 AND state <> 'disabled' AND deleted_at IS NULL
    RETURNING endpoint_id, tenant_id, name, url, state_reason
  ), notices AS (
    INSERT INTO relayops.operational_notices (tenant_id, type, endpoint_id, data)
    SELECT tenant_id, 'endpoint.disabled', endpoint_id, jsonb_build_object('endpointId', endpoint_id, 'name', name, 'url', url,
             'reason', state_reason, 'disabledAt', relayops.iso(now()))
    FROM disabled WHERE relayops.wants_notice(tenant_id, 'endpoint.disabled', endpoint_id)
  )
  SELECT endpoint_id FROM disabled`);

/**
 * The receiver itself said 410 Gone. @param version of the endpoint that was called: one that was changed meanwhile stays as it is
 * @returns whether it was this call that disabled it
 */
export async function disableEndpoint(
  db: Queryable,
  endpointId: EndpointId,
  version: number,
  reason: string,
): Promise<boolean> {
  return (await db.query(disable([endpointId, version, reason]))).rowCount === 1;
}
