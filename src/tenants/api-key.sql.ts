import type { Queryable, Transaction } from '../platform/db/database.ts';
import { plainArray, prepared } from '../platform/db/sql.ts';
import type { ApiKeyId, TenantId } from '../shared/ids.ts';
import type { Issuer } from './issuer.ts';

/** An API key without its hash. */
export interface ApiKeyRow {
  readonly api_key_id: ApiKeyId;
  readonly name: string;
  readonly prefix: string;
  readonly scopes: string[];
  readonly created_by: string;
  readonly created_at: Date;
  readonly expires_at: Date | null;
  readonly revoked_at: Date | null;
  readonly last_used_at: Date | null;
}

const COLUMNS =
  'api_key_id, name, prefix, scopes, created_by, created_at, expires_at, revoked_at, last_used_at';

export interface NewApiKeyRow {
  readonly apiKeyId: ApiKeyId;
  readonly name: string;
  readonly prefix: string;
  readonly hash: Buffer;
  readonly scopes: readonly string[];
  readonly expiresAt: Date | null;
}

const INSERT = prepared(`
  INSERT INTO relayops.api_keys (api_key_id, tenant_id, name, prefix, key_hash, scopes, created_by, expires_at)
  SELECT $1, $2, $3, $4, $5, $6, $7, $8::timestamptz
  WHERE $8::timestamptz IS NULL OR $8::timestamptz > now()
  RETURNING ${COLUMNS}`);
/** Undefined when the expiry has passed already. */
export async function insertApiKey(
  { db, tenantId, actor }: Issuer,
  key: NewApiKeyRow,
): Promise<ApiKeyRow | undefined> {
  const { apiKeyId, name, prefix, hash, scopes, expiresAt } = key;
  const { rows } = await db.query<ApiKeyRow>(
    INSERT([apiKeyId, tenantId, name, prefix, hash, scopes, actor, expiresAt]),
  );
  return rows[0];
}

const LOCK = prepared(`
  SELECT ${COLUMNS}, key_hash, (revoked_at IS NOT NULL OR coalesce(expires_at <= now(), false)) AS ended
  FROM relayops.api_keys WHERE tenant_id = $1 AND api_key_id = $2 FOR NO KEY UPDATE`);
/** Index: primary key, or api_keys_tenant. Locks the key's row until the transaction ends, so that rotations and a revocation take turns. */
export async function lockApiKey(
  tx: Transaction,
  tenantId: TenantId,
  apiKeyId: ApiKeyId,
): Promise<(ApiKeyRow & { readonly key_hash: Buffer; readonly ended: boolean }) | undefined> {
  const { rows } = await tx.query<ApiKeyRow & { key_hash: Buffer; ended: boolean }>(
    LOCK([tenantId, apiKeyId]),
  );
  return rows[0];
}

const LIST = prepared(`
  SELECT ${COLUMNS} FROM relayops.api_keys
  WHERE tenant_id = $1 AND ($2::uuid IS NULL OR api_key_id < $2)
  ORDER BY api_key_id DESC LIMIT $3`);
/** Newest first. Index: api_keys_tenant, backwards. */
export async function listApiKeys(
  db: Queryable,
  tenantId: TenantId,
  before: string | null,
  limit: number,
): Promise<ApiKeyRow[]> {
  const { rows } = await db.query<ApiKeyRow>(LIST([tenantId, before, limit]));
  return rows;
}

const EXPIRE = prepared(`
  UPDATE relayops.api_keys SET expires_at = least(expires_at, now() + make_interval(secs => $3))
  WHERE tenant_id = $1 AND api_key_id = $2
  RETURNING expires_at`);
/** Ends the key after the overlap, never later than it would have ended anyway. Index as `lockApiKey`. */
export async function expireApiKey(
  tx: Transaction,
  tenantId: TenantId,
  apiKeyId: ApiKeyId,
  overlapS: number,
): Promise<Date> {
  const { rows } = await tx.query<{ expires_at: Date }>(EXPIRE([tenantId, apiKeyId, overlapS]));
  return rows[0]!.expires_at;
}

const REVOKE = prepared(`
  UPDATE relayops.api_keys SET revoked_at = coalesce(revoked_at, now()) WHERE tenant_id = $1 AND api_key_id = $2`);
/** Under `lockApiKey`. Index as that. */
export async function revokeApiKey(tx: Transaction, tenantId: TenantId, apiKeyId: ApiKeyId): Promise<void> {
  await tx.query(REVOKE([tenantId, apiKeyId]));
}

export interface AuthenticationRow {
  readonly api_key_id: ApiKeyId;
  readonly tenant_id: TenantId;
  readonly scopes: string[];
  readonly revoked: boolean;
  /** Null when the key does not expire; zero or less when it has expired. */
  readonly expires_in_ms: number | null;
}

const AUTHENTICATE = prepared(`
  SELECT api_key_id, tenant_id, scopes, revoked_at IS NOT NULL AS revoked,
    (extract(epoch FROM expires_at - now()) * 1000)::float8 AS expires_in_ms
  FROM relayops.api_keys WHERE key_hash = $1`);
/** Authentication only: finds the tenant, so it cannot be scoped by it. Index: api_keys_hash. */
export async function findApiKeyByHash(
  db: Queryable,
  keyHash: Buffer,
): Promise<AuthenticationRow | undefined> {
  const { rows } = await db.query<AuthenticationRow>(AUTHENTICATE([keyHash]));
  return rows[0];
}

const TOUCH = prepared(`
  WITH used AS MATERIALIZED (
    SELECT k.api_key_id FROM unnest($1::uuid[], $2::uuid[]) AS u (tenant_id, api_key_id)
    JOIN relayops.api_keys k ON k.tenant_id = u.tenant_id AND k.api_key_id = u.api_key_id
    WHERE k.last_used_at IS NULL OR k.last_used_at <= now() - interval '1 minute'
    FOR NO KEY UPDATE OF k SKIP LOCKED
  )
  UPDATE relayops.api_keys k SET last_used_at = now() FROM used WHERE k.api_key_id = used.api_key_id`);
/**
 * Notes now() as the last use of each key (parallel arrays of tenant and key), at most once a minute a key over all processes.
 * Index: api_keys_tenant. Skips rows that somebody else holds, so that two processes cannot wait for each other.
 */
export async function touchApiKeys(
  db: Queryable,
  tenantIds: readonly TenantId[],
  apiKeyIds: readonly ApiKeyId[],
): Promise<void> {
  await db.query(TOUCH([plainArray(tenantIds), plainArray(apiKeyIds)]));
}
