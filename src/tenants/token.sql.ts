import type { Queryable, Transaction } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { TenantId, UserId } from '../shared/ids.ts';
import type { Issuer } from './issuer.ts';
import type { SessionHolder } from './session-holder.ts';

// Refresh tokens -----------------------------------------------------------------------------------------------------

export interface RefreshTokenRow {
  readonly family_id: string;
  readonly user_id: UserId;
  readonly tenant_id: TenantId;
  /** What it was when it was read; under the lock on the user's row it stays that. */
  readonly state: 'open' | 'used' | 'expired' | 'revoked';
}

const FIND_REFRESH = prepared(`
  SELECT family_id, user_id, tenant_id,
    CASE WHEN revoked_at IS NOT NULL THEN 'revoked' WHEN used_at IS NOT NULL THEN 'used'
      WHEN expires_at <= now() THEN 'expired' ELSE 'open' END AS state
  FROM relayops.refresh_tokens WHERE token_hash = $1`);
/** Authentication only: finds the tenant, so it cannot be scoped by it. Index: primary key. */
export async function findRefreshToken(
  db: Queryable,
  tokenHash: Buffer,
): Promise<RefreshTokenRow | undefined> {
  const { rows } = await db.query<RefreshTokenRow>(FIND_REFRESH([tokenHash]));
  return rows[0];
}

const INSERT_REFRESH = prepared(`
  INSERT INTO relayops.refresh_tokens (token_hash, family_id, user_id, tenant_id, expires_at, origin_hash)
  VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5), $6)`);
export async function insertRefreshToken(
  { tx, user }: SessionHolder,
  token: {
    readonly hash: Buffer;
    readonly familyId: string;
    readonly ttlS: number;
    /** Keyed hash of the client's address. */
    readonly originHash: Buffer;
  },
): Promise<void> {
  const { hash, familyId, ttlS, originHash } = token;
  await tx.query(INSERT_REFRESH([hash, familyId, user.user_id, user.tenant_id, ttlS, originHash]));
}

const USE_REFRESH = prepared(
  'UPDATE relayops.refresh_tokens SET used_at = now() WHERE tenant_id = $1 AND token_hash = $2',
);
/** Takes the one use of an open token, under the lock on the user's row. Index: primary key. */
export async function useRefreshToken(tx: Transaction, tenantId: TenantId, tokenHash: Buffer): Promise<void> {
  await tx.query(USE_REFRESH([tenantId, tokenHash]));
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

// Password resets ----------------------------------------------------------------------------------------------------

const INSERT_RESET = prepared(`
  INSERT INTO relayops.password_resets (token_hash, user_id, tenant_id, created_by, expires_at)
  VALUES ($1, $2, $3, $4, now() + make_interval(secs => $5))
  ON CONFLICT (user_id) DO UPDATE SET token_hash = excluded.token_hash, created_by = excluded.created_by,
    created_at = now(), expires_at = excluded.expires_at
  RETURNING expires_at`);
/** Replaces an earlier one of the same user, under the lock on the user's row. Index: password_resets_user_id_key. */
export async function insertPasswordReset(
  { db, tenantId, actor }: Issuer,
  reset: { readonly hash: Buffer; readonly userId: UserId; readonly ttlS: number },
): Promise<Date> {
  const { rows } = await db.query<{ expires_at: Date }>(
    INSERT_RESET([reset.hash, reset.userId, tenantId, actor, reset.ttlS]),
  );
  return rows[0]!.expires_at;
}

export interface PasswordResetRow {
  readonly user_id: UserId;
  readonly tenant_id: TenantId;
  readonly created_by: string;
}

const FIND_RESET = prepared(`
  SELECT user_id, tenant_id, created_by FROM relayops.password_resets WHERE token_hash = $1 AND expires_at > now()`);
/** Authentication only: finds the tenant, so it cannot be scoped by it. Index: primary key. */
export async function findPasswordReset(
  db: Queryable,
  tokenHash: Buffer,
): Promise<PasswordResetRow | undefined> {
  const { rows } = await db.query<PasswordResetRow>(FIND_RESET([tokenHash]));
  return rows[0];
}

const DELETE_RESETS = prepared('DELETE FROM relayops.password_resets WHERE tenant_id = $1 AND user_id = $2');
/** Under the lock on the user's row. Index: password_resets_user_id_key. */
export async function deletePasswordResets(
  tx: Transaction,
  tenantId: TenantId,
  userId: UserId,
): Promise<void> {
  await tx.query(DELETE_RESETS([tenantId, userId]));
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

const DELETE_EXPIRED_RESETS = prepared(`
  DELETE FROM relayops.password_resets WHERE token_hash IN (
    SELECT token_hash FROM relayops.password_resets WHERE expires_at < now() LIMIT $1 FOR UPDATE SKIP LOCKED)`);
/** No index: the table holds one row a user at most. Locks what it deletes, waits for nobody. */
export async function deleteExpiredPasswordResets(db: Queryable, limit: number): Promise<number> {
  return (await db.query(DELETE_EXPIRED_RESETS([limit]))).rowCount ?? 0;
}
