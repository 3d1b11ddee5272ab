import type { Transaction } from '../platform/db/database.ts';
import type { TenantId, UserId } from '../shared/ids.ts';
import { type UserRow, isActive, lockUser } from './user.sql.ts';

/**
 * A user who may have a session, as the database says in this transaction. The statement that stores a refresh token asks for one, so
 * that no way to a session can forget to look.
 */
export class SessionHolder {
  readonly tx: Transaction;
  /** A private field makes the type nominal: an object that only looks like a SessionHolder is none. */
  readonly #user: UserRow;

  private constructor(tx: Transaction, user: UserRow) {
    this.tx = tx;
    this.#user = user;
  }

  get user(): UserRow {
    return this.#user;
  }

  /** Undefined when the user is disabled, deleted or not there. Locks its row until the transaction ends. */
  static async lock(tx: Transaction, tenantId: TenantId, userId: UserId): Promise<SessionHolder | undefined> {
    const user = await lockUser(tx, tenantId, userId);
    return user && isActive(user) ? new SessionHolder(tx, user) : undefined;
  }
}
