import type { Queryable, Transaction } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { TenantId, UserId } from '../shared/ids.ts';
import type { Role } from './scopes.ts';

/** A user without the password's hash, which only `findLogin` reads. */
export interface UserRow {
  readonly user_id: UserId;
  readonly tenant_id: TenantId;
  readonly email: string;
  readonly role: Role;
  readonly created_at: Date;
  readonly disabled_at: Date | null;
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
  RETURNING user_id, tenant_id, email, role, created_at, disabled_at`);
/** Undefined when the e-mail is taken, in whichever tenant. Index: user_accounts_email. */
export async function insertUser(
  db: Queryable,
  tenantId: TenantId,
  user: NewUser,
): Promise<UserRow | undefined> {
  const { rows } = await db.query<UserRow>(
    INSERT([user.userId, tenantId, user.email, user.passwordHash, user.role]),
  );
  return rows[0];
}

const FIND = prepared(`
  SELECT user_id, tenant_id, email, role, created_at, disabled_at FROM relayops.user_accounts
  WHERE tenant_id = $1 AND user_id = $2`);
/** Index: primary key, or user_accounts_tenant. */
export async function findUser(
  db: Queryable,
  tenantId: TenantId,
  userId: UserId,
): Promise<UserRow | undefined> {
  const { rows } = await db.query<UserRow>(FIND([tenantId, userId]));
  return rows[0];
}

const LOCK = prepared(`
  SELECT user_id, tenant_id, email, role, created_at, disabled_at FROM relayops.user_accounts
  WHERE tenant_id = $1 AND user_id = $2 FOR NO KEY UPDATE`);
/**
 * Makes the sessions of one user take turns with each other and with disabling the user. Index as `findUser`. Locks the user's
 * row until the transaction ends.
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
  SELECT user_id, tenant_id, email, role, created_at, disabled_at FROM relayops.user_accounts
  WHERE tenant_id = $1 AND ($2::uuid IS NULL OR user_id < $2)
  ORDER BY user_id DESC LIMIT $3`);
/** Newest first. Index: user_accounts_tenant, backwards. */
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
  WHERE tenant_id = $1 AND user_id <> $2 AND role = 'owner' AND disabled_at IS NULL`);
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
  RETURNING user_id, tenant_id, email, role, created_at, disabled_at`);
/** Index as `findUser`. */
export async function updateUser(
  tx: Transaction,
  tenantId: TenantId,
  userId: UserId,
  role: Role,
  disabled: boolean,
): Promise<UserRow | undefined> {
  const { rows } = await tx.query<UserRow>(UPDATE([tenantId, userId, role, disabled]));
  return rows[0];
}

export interface LoginRow {
  readonly user_id: UserId;
  readonly tenant_id: TenantId;
  readonly password_hash: string;
}

const FIND_LOGIN = prepared(`
  SELECT user_id, tenant_id, password_hash FROM relayops.user_accounts WHERE lower(email) = lower($1)`);
/** Authentication only: finds the tenant, so it cannot be scoped by it. Index: user_accounts_email. */
export async function findLogin(db: Queryable, email: string): Promise<LoginRow | undefined> {
  const { rows } = await db.query<LoginRow>(FIND_LOGIN([email]));
  return rows[0];
}
