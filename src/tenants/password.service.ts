import { randomUUID } from 'node:crypto';
import type { Database, Transaction } from '../platform/db/database.ts';
import type { UserId } from '../shared/ids.ts';
import { type Fingerprints, turnOfClient } from './client.ts';
import { Issuer } from './issuer.ts';
import type { LoginThrottle } from './login-throttle.ts';
import { mayManageUser } from './may-manage.ts';
import type { PasswordChange, PasswordReset, PasswordResetBody } from './password.schemas.ts';
import type { Passwords } from './passwords.ts';
import { type Principal, userOfActor } from './scopes.ts';
import { digestOf, mintToken } from './secret-token.ts';
import { SessionHolder } from './session-holder.ts';
import { type Opened, type SessionOpener, endSessions } from './session-opener.ts';
import type { Session } from './session.schemas.ts';
import {
  credentialRevoked,
  ownPasswordReset,
  passwordResetInvalid,
  passwordWrong,
  userRequired,
} from './tenants.errors.ts';
import type { TokenTries } from './token-tries.ts';
import {
  type PasswordResetRow,
  deletePasswordResets,
  findPasswordReset,
  insertPasswordReset,
} from './token.sql.ts';
import { findPasswordHash, findUser, isKnownOrigin, lockUser, setPasswordHash } from './user.sql.ts';
import { checkedUserId, lockManaged } from './user.service.ts';

export interface PasswordServiceOptions {
  readonly database: Database;
  readonly opener: SessionOpener;
  readonly passwords: Passwords;
  readonly throttle: LoginThrottle;
  readonly tokenTries: TokenTries;
  readonly fingerprints: Fingerprints;
  /** Life of a reset token in seconds. */
  readonly resetTtlS: number;
  /** Told after the sessions of a user have ended, so that this process stops trusting what it knew. */
  readonly onEnded: (userId: UserId) => void;
}

/** Changing and resetting passwords. Either ends all sessions of the user. */
export class PasswordService {
  readonly #options: PasswordServiceOptions;

  constructor(options: PasswordServiceOptions) {
    this.#options = options;
  }

  /**
   * Changes the caller's own password and opens a new session in place of all others. Tries count as logins.
   * @throws USER_REQUIRED, PASSWORD_WRONG, LOGIN_THROTTLED, UNAVAILABLE; as `Issuer.verify`
   */
  async change(principal: Principal, body: PasswordChange, address: string): Promise<Session> {
    const { database, passwords, opener, onEnded } = this.#options;
    const userId = userOfActor(principal.actor);
    if (userId === undefined) throw userRequired();
    const passwordHash = await this.#checkCurrent(principal, userId, body.currentPassword, address);
    const newHash = await passwords.hash(turnOfClient(address, userId), body.newPassword);
    const opened = await database.transaction(async (tx) => {
      const issuer = await Issuer.verify(tx, principal, null);
      if ((await findPasswordHash(tx, principal.tenantId, userId)) !== passwordHash)
        throw credentialRevoked();
      return this.#replace(tx, issuer, userId, newHash, address);
    });
    onEnded(userId);
    return opener.sessionOf(opened);
  }

  /**
   * Makes a token by which a user sets a new password. A former one ends; the present password goes on until the token is used.
   * Not one's own: whoever has found a session could take over the account by it.
   * @throws NOT_FOUND, OWN_PASSWORD_RESET, OWNER_REQUIRED, TARGET_ABOVE_CALLER; as `Issuer.verify`
   */
  async issueReset(principal: Principal, userId: string): Promise<PasswordReset> {
    const { database, resetTtlS } = this.#options;
    const id = checkedUserId(userId);
    if (id === userOfActor(principal.actor)) throw ownPasswordReset();
    const resetToken = mintToken('reset');
    const expiresAt = await database.transaction(async (tx) => {
      const issuer = await Issuer.verify(tx, principal, 'users:write');
      await lockManaged(tx, issuer, id);
      return insertPasswordReset(issuer, { hash: digestOf(resetToken), userId: id, ttlS: resetTtlS });
    });
    return { userId: id, resetToken, expiresAt: expiresAt.toISOString() };
  }

  /**
   * Uses a reset token, once. Who issued it must still be allowed to, and the user must not be disabled.
   * @throws PASSWORD_RESET_INVALID, the same for every reason; TOKEN_THROTTLED, UNAVAILABLE
   */
  async redeem(body: PasswordResetBody, address: string): Promise<void> {
    const { database, passwords, tokenTries, onEnded } = this.#options;
    tokenTries.check(address);
    const tokenHash = digestOf(body.resetToken);
    // Strangers may not make us hash passwords.
    const reset = await findPasswordReset(database.requests, tokenHash);
    const passwordHash = reset && (await passwords.hash(turnOfClient(address, 'reset'), body.newPassword));
    const isDone =
      reset !== undefined &&
      passwordHash !== undefined &&
      (await database.transaction((tx) => useReset(tx, reset, tokenHash, passwordHash)));
    if (!isDone) {
      tokenTries.refused(address);
      throw passwordResetInvalid();
    }
    onEnded(reset.user_id);
  }

  /** @returns the stored hash that the password fits */
  async #checkCurrent(
    { tenantId }: Principal,
    userId: UserId,
    password: string,
    address: string,
  ): Promise<string> {
    const { database, passwords, throttle, fingerprints } = this.#options;
    const user = await findUser(database.requests, tenantId, userId);
    const stored = await findPasswordHash(database.requests, tenantId, userId);
    if (user === undefined || stored === undefined) throw credentialRevoked();
    const attempt = await throttle.begin(user.email, address, () =>
      isKnownOrigin(database.requests, user.email, fingerprints.ofOrigin(address)),
    );
    let matches: boolean;
    try {
      matches = await passwords.verify(turnOfClient(address, user.email), stored, password);
    } catch (error) {
      attempt.undecided();
      throw error;
    }
    if (!matches) throw passwordWrong();
    attempt.succeeded();
    return stored;
  }

  /** Under the lock on the user's row. The session is opened after the generation has risen, so that it belongs to the new one. */
  async #replace(
    tx: Transaction,
    issuer: Issuer,
    userId: UserId,
    passwordHash: string,
    address: string,
  ): Promise<Opened> {
    const { tenantId } = issuer;
    await endSessions(tx, tenantId, userId);
    await deletePasswordResets(tx, tenantId, userId);
    await setPasswordHash(issuer, userId, passwordHash);
    const holder = await SessionHolder.lock(tx, tenantId, userId);
    if (holder === undefined) throw credentialRevoked();
    return this.#options.opener.open(holder, { familyId: randomUUID(), address });
  }
}

/** False when the token was used meanwhile, its issuer may not manage the user any more, or the user is disabled. */
async function useReset(
  tx: Transaction,
  { tenant_id, user_id, created_by }: PasswordResetRow,
  tokenHash: Buffer,
  passwordHash: string,
): Promise<boolean> {
  const issuer = await Issuer.again(tx, tenant_id, created_by);
  const user = await lockUser(tx, tenant_id, user_id);
  // Read again: another request may have had the lock.
  if ((await findPasswordReset(tx, tokenHash)) === undefined) return false;
  if (!issuer || !user || user.disabled_at !== null || !mayManageUser(issuer, user.role)) return false;
  await endSessions(tx, tenant_id, user_id);
  await deletePasswordResets(tx, tenant_id, user_id);
  await setPasswordHash(issuer, user_id, passwordHash);
  return true;
}
