import type { Database, Queryable, Transaction } from '../platform/db/database.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import type { Clock } from '../shared/clock.ts';
import { type UserId, isId, newId } from '../shared/ids.ts';
import { toUser } from './account.dto.ts';
import type { NewUserBody, User, UserChange } from './account.schemas.ts';
import { normalisedEmail } from './email.ts';
import { type Page, type PageQuery, idAfter, toPage } from '../platform/http/page.ts';
import type { Passwords } from './passwords.ts';
import { type Principal, type Role, scopesBeyond, scopesOfRole, userOfActor } from './scopes.ts';
import { lockTenant } from './tenant.sql.ts';
import { emailTaken, lastOwner, ownerRequired, scopeNotGrantable } from './tenants.errors.ts';
import { revokeRefreshTokensOfUser } from './token.sql.ts';
import {
  type UserRow,
  countOtherActiveOwners,
  findUser,
  insertUser,
  listUsers,
  lockUser,
  updateUser,
} from './user.sql.ts';

export interface UserServiceOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly passwords: Passwords;
  /** Told after a change has been committed, so that this process stops trusting what it knew. */
  readonly onChanged: (userId: UserId) => void;
}

/** The users of the caller's tenant. Users are disabled, never deleted: what they did keeps its author. */
export class UserService {
  readonly #options: UserServiceOptions;

  constructor(options: UserServiceOptions) {
    this.#options = options;
  }

  /** @throws EMAIL_TAKEN, OWNER_REQUIRED, SCOPE_NOT_GRANTABLE */
  async create(principal: Principal, body: NewUserBody): Promise<User> {
    const { database, passwords, clock } = this.#options;
    checkGrantable(principal, body.role);
    if (body.role === 'owner') await requireOwner(database.requests, principal);
    const row = await insertUser(database.requests, principal.tenantId, {
      userId: newId<UserId>(clock.now()),
      email: normalisedEmail(body.email),
      passwordHash: await passwords.hash(body.password),
      role: body.role,
    });
    if (row === undefined) throw emailTaken();
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
    const row = await findUser(this.#options.database.requests, principal.tenantId, checkedId(userId));
    if (row === undefined) throw routeNotFound();
    return toUser(row);
  }

  /**
   * Changes role or state. Disabling ends all sessions of the user; API keys belong to the tenant and go on.
   * @throws NOT_FOUND, LAST_OWNER, OWNER_REQUIRED, SCOPE_NOT_GRANTABLE
   */
  async change(principal: Principal, userId: string, change: UserChange): Promise<User> {
    const id = checkedId(userId);
    const row = await this.#options.database.transaction((tx) => changeUser(tx, principal, id, change));
    this.#options.onChanged(id);
    return toUser(row);
  }
}

async function changeUser(
  tx: Transaction,
  principal: Principal,
  userId: UserId,
  change: UserChange,
): Promise<UserRow> {
  const { tenantId } = principal;
  await lockTenant(tx, tenantId);
  const before = await lockUser(tx, tenantId, userId);
  if (before === undefined) throw routeNotFound();
  const role = change.role ?? before.role;
  const disabled = change.disabled ?? before.disabled_at !== null;
  if (change.role !== undefined || change.disabled === false) checkGrantable(principal, role);
  if (before.role === 'owner' || role === 'owner') await requireOwner(tx, principal);
  if (isActiveOwner(before) && (disabled || role !== 'owner')) await requireOtherOwner(tx, before);
  const after = await updateUser(tx, tenantId, userId, role, disabled);
  if (after === undefined) throw routeNotFound();
  if (disabled) await revokeRefreshTokensOfUser(tx, tenantId, userId);
  return after;
}

function isActiveOwner(user: UserRow): boolean {
  return user.role === 'owner' && user.disabled_at === null;
}

/** Whoever makes a user chooses the password, and so could use every scope of the role. */
function checkGrantable(principal: Principal, role: Role): void {
  const beyond = scopesBeyond(principal, scopesOfRole(role));
  if (beyond.length > 0) throw scopeNotGrantable({ extra: { scopes: beyond } });
}

/** Read from the database and not from the credential, so that a demoted owner cannot do it for some seconds more. */
async function requireOwner(db: Queryable, principal: Principal): Promise<void> {
  const userId = userOfActor(principal.actor);
  const caller = userId && (await findUser(db, principal.tenantId, userId));
  if (!caller || !isActiveOwner(caller)) throw ownerRequired();
}

async function requireOtherOwner(tx: Transaction, user: UserRow): Promise<void> {
  if ((await countOtherActiveOwners(tx, user.tenant_id, user.user_id)) === 0) throw lastOwner();
}

/** A malformed ID looks the same as one that does not exist. */
function checkedId(text: string): UserId {
  if (!isId(text)) throw routeNotFound();
  return text as UserId;
}
