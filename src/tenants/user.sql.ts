import type { Queryable, Transaction } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { TenantId, UserId } from '../shared/ids.ts';
import type { Issuer } from './issuer.ts';
import type { Role } from './scopes.ts';

/** A user without the password's hash, which only `findLogin` and `findPasswordHash` read. */
export interface UserRow {
  readonly user_id: UserId;
  readonly tenant_id: TenantId;
  /** Of a deleted user: the address that it had. */
  readonly email: string;
  readonly role: Role;
  readonly generation: number;
  readonly created_at: Date;
  readonly disabled_at: Date | null;
  readonly deleted_at: Date | null;
}

const COLUMNS =
  'user_id, tenant_id, coalesce(deleted_email, email) AS email, role, generation, created_at, disabled_at, deleted_at';

/** Whether the user may log in and act. */
export function isActive(user: Pick<UserRow, 'disabled_at' | 'deleted_at'>): boolean {
  return user.disabled_at === null && user.deleted_at === null;
}

export interface NewUser {
  readonly userId: UserId;
  readonly email: string;
  readonly passwordHash: string;
  readonly role: Role;
}

const INSERT = prepared(`
  INSERT INTO relayops.user_accounts (user_id, tenant_id, email, password_hash, role) VALUES ($1, $2, $3, $4, $5)
  ON CONFLICT (lower(email)) DO NOTHING
  RETURNING ${COLUMNS}`);
/** Undefined when the e-mail is taken, in whichever tenant. Index: user_accounts_email. */
export async function insertUser({ db, tenantId }: Issuer, user: NewUser): Promise<UserRow | undefined> {
  const { rows } = await db.query<UserRow>(
    INSERT([user.userId, tenantId, user.email, user.passwordHash, user.role]),
  );
  return rows[0];
}

const FIND = prepared(`
  SELECT ${COLUMNS} FROM relayops.user_accounts WHERE tenant_id = $1 AND user_id = $2`);
/** Deleted ones too: what they made names them. Index: primary key, or user_accounts_tenant. */
export async function findUser(
  db: Queryable,
  tenantId: TenantId,
  userId: UserId,
): Promise<UserRow | undefined> {
  const { rows } = await db.query<UserRow>(FIND([tenantId, userId]));
  return rows[0];
}

const LOCK = prepared(`
  SELECT ${COLUMNS} FROM relayops.user_accounts
  WHERE tenant_id = $1 AND user_id = $2 AND deleted_at IS NULL FOR NO KEY UPDATE`);
/**
 * Makes the sessions of one user take turns with each other and with disabling the user. Undefined when it was deleted. Index as
 * `findUser`. Locks the user's row until the transaction ends.
 */
export async function lockUser(
  tx: Transaction,
  tenantId: TenantId,
  userId: UserId,
): Promise<UserRow | undefined> {
  const { rows } = await tx.query<UserRow>(LOCK([tenantId, userId]));
  return rows[0];
}

const LIST = prepared(`
  SELECT ${COLUMNS} FROM relayops.user_accounts
  WHERE tenant_id = $1 AND ($2::uuid IS NULL OR user_id < $2) AND deleted_at IS NULL
  ORDER BY user_id DESC LIMIT $3`);
/** Newest first, without deleted ones. Index: user_accounts_tenant, backwards. */
export async function listUsers(
  db: Queryable,
  tenantId: TenantId,
  before: string | null,
  limit: number,
): Promise<UserRow[]> {
  const { rows } = await db.query<UserRow>(LIST([tenantId, before, limit]));
  return rows;
}

const COUNT_OTHER_OWNERS = prepared(`
  SELECT count(*)::int AS owners FROM relayops.user_accounts
  WHERE tenant_id = $1 AND user_id <> $2 AND role = 'owner' AND disabled_at IS NULL AND deleted_at IS NULL`);
/** Holds only under `lockTenant`. Index: user_accounts_tenant; reads all users of the tenant. */
export async function countOtherActiveOwners(
  tx: Transaction,
  tenantId: TenantId,
  userId: UserId,
): Promise<number> {
  const { rows } = await tx.query<{ owners: number }>(COUNT_OTHER_OWNERS([tenantId, userId]));
  return rows[0]!.owners;
}

const UPDATE = prepared(`
  UPDATE relayops.user_accounts
  SET role = $3, disabled_at = CASE WHEN $4::boolean THEN coalesce(disabled_at, now()) END
  WHERE tenant_id = $1 AND user_id = $2
  RETURNING ${COLUMNS}`);
/** A change raises the generation (a trigger). Index as `findUser`. */
export async function updateUser(
  { db, tenantId }: Issuer,
  userId: UserId,
  role: Role,
  disabled: boolean,
): Promise<UserRow | undefined> {
  const { rows } = await db.query<UserRow>(UPDATE([tenantId, userId, role, disabled]));
  return rows[0];
}

const SET_PASSWORD = prepared(`
  UPDATE relayops.user_accounts SET password_hash = $3 WHERE tenant_id = $1 AND user_id = $2`);
/** Raises the generation (a trigger). Under the lock on the user's row. Index as `findUser`. */
export async function setPasswordHash(
  { db, tenantId }: Issuer,
  userId: UserId,
  passwordHash: string,
): Promise<void> {
  await db.query(SET_PASSWORD([tenantId, userId, passwordHash]));
}

const END_TOKENS = prepared(`
  UPDATE relayops.user_accounts SET generation = generation + 1 WHERE tenant_id = $1 AND user_id = $2`);
/** Ends the user's access tokens: here once the cached finding is dropped, elsewhere within the trusted time. Index as `findUser`. */
export async function raiseGeneration(tx: Transaction, tenantId: TenantId, userId: UserId): Promise<void> {
  await tx.query(END_TOKENS([tenantId, userId]));
}

const DELETE = prepared(`
  UPDATE relayops.user_accounts
  SET deleted_at = now(), disabled_at = coalesce(disabled_at, now()), deleted_email = email,
    email = 'deleted:' || user_id, password_hash = $3
  WHERE tenant_id = $1 AND user_id = $2 AND deleted_at IS NULL`);
/** Frees the address and keeps the row. Raises the generation (a trigger). Index as `findUser`. */
export async function markUserDeleted(
  tx: Transaction,
  tenantId: TenantId,
  userId: UserId,
  unusablePasswordHash: string,
): Promise<void> {
  await tx.query(DELETE([tenantId, userId, unusablePasswordHash]));
}

const FIND_PASSWORD = prepared(`
  SELECT password_hash FROM relayops.user_accounts WHERE tenant_id = $1 AND user_id = $2 AND deleted_at IS NULL`);
/** Index as `findUser`. */
export async function findPasswordHash(
  db: Queryable,
  tenantId: TenantId,
  userId: UserId,
): Promise<string | undefined> {
  const { rows } = await db.query<{ password_hash: string }>(FIND_PASSWORD([tenantId, userId]));
  return rows[0]?.password_hash;
}

export interface LoginRow {
  readonly user_id: UserId;
  readonly tenant_id: TenantId;
  readonly password_hash: string;
  readonly disabled: boolean;
}

const FIND_LOGIN = prepared(`
  SELECT user_id, tenant_id, password_hash, disabled_at IS NOT NULL AS disabled FROM relayops.user_accounts
  WHERE lower(email) = lower($1) AND deleted_at IS NULL`);
/** Authentication only: finds the tenant, so it cannot be scoped by it. Index: user_accounts_email. */
export async function findLogin(db: Queryable, email: string): Promise<LoginRow | undefined> {
  const { rows } = await db.query<LoginRow>(FIND_LOGIN([email]));
  return rows[0];
}

const IS_KNOWN = prepared(`
  SELECT FROM relayops.user_accounts u JOIN relayops.refresh_tokens r ON r.user_id = u.user_id
  WHERE lower(u.email) = lower($1) AND u.deleted_at IS NULL AND r.origin_hash = $2 LIMIT 1`);
/**
 * Whether a session of this account was opened or refreshed from there, within the life of a refresh token. Authentication only, as
 * `findLogin`. Index: user_accounts_email, refresh_tokens_origin.
 */
export async function isKnownOrigin(db: Queryable, email: string, originHash: Buffer): Promise<boolean> {
  const { rowCount } = await db.query(IS_KNOWN([email, originHash]));
  return rowCount === 1;
}
