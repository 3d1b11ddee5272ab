import type { Queryable, Transaction } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { TenantId, UserId } from '../shared/ids.ts';

// Refresh tokens -----------------------------------------------------------------------------------------------------

export interface RefreshTokenRow {
  readonly family_id: string;
  readonly user_id: UserId;
  readonly tenant_id: TenantId;
}

const FIND_REFRESH = prepared(
  'SELECT family_id, user_id, tenant_id FROM relayops.refresh_tokens WHERE token_hash = $1',
);
/** Authentication only: finds the tenant, so it cannot be scoped by it. Index: primary key. */
export async function findRefreshToken(
  db: Queryable,
  tokenHash: Buffer,
): Promise<RefreshTokenRow | undefined> {
  const { rows } = await db.query<RefreshTokenRow>(FIND_REFRESH([tokenHash]));
  return rows[0];
}

const INSERT_REFRESH = prepared(`
  INSERT INTO relayops.refresh_tokens (token_hash, family_id, user_id, tenant_id, expires_at)
  VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))`);
export async function insertRefreshToken(
  tx: Transaction,
  tenantId: TenantId,
  token: {
    readonly hash: Buffer;
    readonly familyId: string;
    readonly userId: UserId;
    readonly ttlS: number;
  },
): Promise<void> {
  await tx.query(INSERT_REFRESH([token.hash, token.familyId, token.userId, tenantId, token.ttlS]));
}

const USE_REFRESH = prepared(`
  UPDATE relayops.refresh_tokens SET used_at = now()
  WHERE tenant_id = $1 AND token_hash = $2 AND used_at IS NULL AND revoked_at IS NULL AND expires_at > now()`);
/** Takes the token's one use; false when there is none left. Index: primary key. */
export async function useRefreshToken(
  tx: Transaction,
  tenantId: TenantId,
  tokenHash: Buffer,
): Promise<boolean> {
  const { rowCount } = await tx.query(USE_REFRESH([tenantId, tokenHash]));
  return rowCount === 1;
}

const REVOKE_FAMILY = prepared(`
  UPDATE relayops.refresh_tokens SET revoked_at = now()
  WHERE tenant_id = $1 AND family_id = $2 AND revoked_at IS NULL`);
/** Ends a session. Needs `lockUser`, else a token that is being added is missed. Index: refresh_tokens_family. */
export async function revokeFamily(tx: Transaction, tenantId: TenantId, familyId: string): Promise<void> {
  await tx.query(REVOKE_FAMILY([tenantId, familyId]));
}

const REVOKE_OF_USER = prepared(`
  UPDATE relayops.refresh_tokens SET revoked_at = now()
  WHERE tenant_id = $1 AND user_id = $2 AND revoked_at IS NULL`);
/** Ends all sessions of a user, under the lock on the user's row. Index: refresh_tokens_user. */
export async function revokeRefreshTokensOfUser(
  tx: Transaction,
  tenantId: TenantId,
  userId: UserId,
): Promise<void> {
  await tx.query(REVOKE_OF_USER([tenantId, userId]));
}

// Bootstrap tokens: they exist before their tenant does, so none of these is scoped by one ------------------------------

const INSERT_BOOTSTRAP = prepared(`
  INSERT INTO relayops.bootstrap_tokens (token_hash, note, expires_at)
  VALUES ($1, $2, now() + make_interval(secs => $3))`);
export async function insertBootstrapToken(
  db: Queryable,
  tokenHash: Buffer,
  note: string,
  ttlS: number,
): Promise<void> {
  await db.query(INSERT_BOOTSTRAP([tokenHash, note, ttlS]));
}

const IS_BOOTSTRAP_OPEN = prepared(`
  SELECT FROM relayops.bootstrap_tokens WHERE token_hash = $1 AND used_at IS NULL AND expires_at > now()`);
/** Whether a sign-up is worth the hashing of its password. Decides nothing: `useBootstrapToken` does. Index: primary key. */
export async function isBootstrapTokenOpen(db: Queryable, tokenHash: Buffer): Promise<boolean> {
  const { rowCount } = await db.query(IS_BOOTSTRAP_OPEN([tokenHash]));
  return rowCount === 1;
}

const USE_BOOTSTRAP = prepared(`
  UPDATE relayops.bootstrap_tokens SET used_at = now()
  WHERE token_hash = $1 AND used_at IS NULL AND expires_at > now()`);
/**
 * Takes the token's one use; false when there is none left. Locks the row, so that a second sign-up waits for the first and then
 * finds the token used, or free again when the first rolled back. Index: primary key.
 */
export async function useBootstrapToken(tx: Transaction, tokenHash: Buffer): Promise<boolean> {
  const { rowCount } = await tx.query(USE_BOOTSTRAP([tokenHash]));
  return rowCount === 1;
}

const SET_BOOTSTRAP_TENANT = prepared(
  'UPDATE relayops.bootstrap_tokens SET tenant_id = $1 WHERE token_hash = $2',
);
/** Records what the token was used for. Index: primary key. */
export async function setTenantOfBootstrapToken(
  tx: Transaction,
  tenantId: TenantId,
  tokenHash: Buffer,
): Promise<void> {
  await tx.query(SET_BOOTSTRAP_TENANT([tenantId, tokenHash]));
}

// Janitor: over all tenants --------------------------------------------------------------------------------------------

const DELETE_REFRESH = prepared(`
  DELETE FROM relayops.refresh_tokens WHERE token_hash IN (
    SELECT token_hash FROM relayops.refresh_tokens WHERE expires_at < now() LIMIT $1 FOR UPDATE SKIP LOCKED)`);
/** No index: one scan of a table with a few rows per session, once in a janitor round. Locks what it deletes, waits for nobody. */
export async function deleteExpiredRefreshTokens(db: Queryable, limit: number): Promise<number> {
  return (await db.query(DELETE_REFRESH([limit]))).rowCount ?? 0;
}

const DELETE_BOOTSTRAP = prepared(`
  DELETE FROM relayops.bootstrap_tokens WHERE token_hash IN (
    SELECT token_hash FROM relayops.bootstrap_tokens WHERE expires_at < now() LIMIT $1 FOR UPDATE SKIP LOCKED)`);
/** No index: the table holds one row per tenant at most, in practice. Locks what it deletes, waits for nobody. */
export async function deleteExpiredBootstrapTokens(db: Queryable, limit: number): Promise<number> {
  return (await db.query(DELETE_BOOTSTRAP([limit]))).rowCount ?? 0;
}
