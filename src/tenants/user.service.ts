import type { Database, Transaction } from '../platform/db/database.ts';
import { type Page, type PageQuery, idAfter, toPage } from '../platform/http/page.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import type { Clock } from '../shared/clock.ts';
import { type UserId, isId, newId } from '../shared/ids.ts';
import { toUser } from './account.dto.ts';
import type { NewUserBody, User, UserChange } from './account.schemas.ts';
import { turnOfPrincipal } from './client.ts';
import type { EmailTries } from './email-tries.ts';
import { normalisedEmail } from './email.ts';
import { Issuer } from './issuer.ts';
import { checkMayGrantRole, checkMayManageUser } from './may-manage.ts';
import { type Passwords, unusableHash } from './passwords.ts';
import type { Principal } from './scopes.ts';
import { endSessions } from './session-opener.ts';
import { lastOwner } from './tenants.errors.ts';
import { deletePasswordResets } from './token.sql.ts';
import {
  type UserRow,
  countOtherActiveOwners,
  findUser,
  insertUser,
  isActive,
  listUsers,
  lockUser,
  markUserDeleted,
  updateUser,
} from './user.sql.ts';

export interface UserServiceOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly passwords: Passwords;
  readonly emailTries: EmailTries;
  /** Told after a change has been committed, so that this process stops trusting what it knew. */
  readonly onChanged: (userId: UserId) => void;
}

/** The users of the caller's tenant. The row of a deleted one stays: what it did keeps its author. */
export class UserService {
  readonly #options: UserServiceOptions;

  constructor(options: UserServiceOptions) {
    this.#options = options;
  }

  /** @throws EMAIL_TAKEN, EMAIL_TRIES_THROTTLED, OWNER_REQUIRED, SCOPE_NOT_GRANTABLE; as `Issuer.verify` */
  async create(principal: Principal, body: NewUserBody): Promise<User> {
    const { database, passwords, clock, emailTries } = this.#options;
    const email = normalisedEmail(body.email);
    const verify = async (tx: Transaction): Promise<Issuer> => {
      const issuer = await Issuer.verify(tx, principal, 'users:write');
      checkMayGrantRole(issuer, body.role);
      return issuer;
    };
    // Once before the work of hashing, which is done outside a transaction, and once in the transaction that decides.
    await database.transaction(verify);
    const asker = { caller: principal.actor, tenant: principal.tenantId };
    const row = await emailTries.run(asker, email, async () => {
      const passwordHash = await passwords.hash(turnOfPrincipal(principal), body.password);
      const user = { userId: newId<UserId>(clock.now()), email, passwordHash, role: body.role };
      return database.transaction(async (tx) => insertUser(await verify(tx), user));
    });
    return toUser(row);
  }

  /** @throws CURSOR_INVALID */
  async list(principal: Principal, query: PageQuery): Promise<Page<User>> {
    const { requests } = this.#options.database;
    const rows = await listUsers(requests, principal.tenantId, idAfter(query), query.limit + 1);
    return toPage(rows, query.limit, (row) => row.user_id, toUser);
  }

  /** @throws NOT_FOUND */
  async get(principal: Principal, userId: string): Promise<User> {
    const row = await findUser(this.#options.database.requests, principal.tenantId, checkedUserId(userId));
    if (row === undefined) throw routeNotFound();
    return toUser(row);
  }

  /**
   * Changes role or state, and ends all sessions of the user. API keys belong to the tenant and go on.
   * @throws NOT_FOUND, LAST_OWNER, OWNER_REQUIRED, SCOPE_NOT_GRANTABLE, TARGET_ABOVE_CALLER; as `Issuer.verify`
   */
  async change(principal: Principal, userId: string, change: UserChange): Promise<User> {
    const id = checkedUserId(userId);
    const row = await this.#options.database.transaction((tx) => changeUser(tx, principal, id, change));
    this.#options.onChanged(id);
    return toUser(row);
  }

  /**
   * Deletes a user: its sessions end, its address is free, its name stays with what it did. API keys belong to the tenant and go on.
   * @throws NOT_FOUND, LAST_OWNER, OWNER_REQUIRED, TARGET_ABOVE_CALLER; as `Issuer.verify`
   */
  async remove(principal: Principal, userId: string): Promise<void> {
    const id = checkedUserId(userId);
    await this.#options.database.transaction(async (tx) => {
      const issuer = await Issuer.verify(tx, principal, 'users:write');
      const user = await lockManaged(tx, issuer, id);
      if (isActiveOwner(user)) await requireOtherOwner(tx, user);
      await endSessions(tx, issuer.tenantId, id);
      await deletePasswordResets(tx, issuer.tenantId, id);
      await markUserDeleted(tx, issuer.tenantId, id, unusableHash());
    });
    this.#options.onChanged(id);
  }
}

/**
 * Locks a user whom the caller may change, disable, delete, or reset.
 * @throws NOT_FOUND, OWNER_REQUIRED, TARGET_ABOVE_CALLER
 */
export async function lockManaged(tx: Transaction, issuer: Issuer, userId: UserId): Promise<UserRow> {
  const user = await lockUser(tx, issuer.tenantId, userId);
  if (user === undefined) throw routeNotFound();
  checkMayManageUser(issuer, user.role);
  return user;
}

/** A malformed ID looks the same as one that does not exist. */
export function checkedUserId(text: string): UserId {
  if (!isId(text)) throw routeNotFound();
  return text as UserId;
}

async function changeUser(
  tx: Transaction,
  principal: Principal,
  userId: UserId,
  change: UserChange,
): Promise<UserRow> {
  const issuer = await Issuer.verify(tx, principal, 'users:write');
  const before = await lockManaged(tx, issuer, userId);
  const role = change.role ?? before.role;
  const disabled = change.disabled ?? before.disabled_at !== null;
  checkMayGrantRole(issuer, role);
  if (isActiveOwner(before) && (disabled || role !== 'owner')) await requireOtherOwner(tx, before);
  if (role === before.role && disabled === (before.disabled_at !== null)) return before;
  await endSessions(tx, issuer.tenantId, userId);
  await deletePasswordResets(tx, issuer.tenantId, userId);
  const after = await updateUser(issuer, userId, role, disabled);
  if (after === undefined) throw routeNotFound();
  return after;
}

function isActiveOwner(user: UserRow): boolean {
  return user.role === 'owner' && isActive(user);
}

async function requireOtherOwner(tx: Transaction, user: UserRow): Promise<void> {
  if ((await countOtherActiveOwners(tx, user.tenant_id, user.user_id)) === 0) throw lastOwner();
}
