import { randomUUID } from 'node:crypto';
import type { Database, Transaction } from '../platform/db/database.ts';
import type { Clock } from '../shared/clock.ts';
import { type TenantId, type UserId, newId } from '../shared/ids.ts';
import { toTenant, toUser } from './account.dto.ts';
import { type Fingerprints, turnOfClient } from './client.ts';
import type { EmailTries } from './email-tries.ts';
import { normalisedEmail } from './email.ts';
import { Issuer } from './issuer.ts';
import type { LoginThrottle } from './login-throttle.ts';
import type { Passwords } from './passwords.ts';
import { digestOf } from './secret-token.ts';
import { SessionHolder } from './session-holder.ts';
import { type Opened, type SessionOpener, endSessions } from './session-opener.ts';
import type { LoginBody, Session, SignUpBody, SignedUp } from './session.schemas.ts';
import { type TenantRow, insertTenant } from './tenant.sql.ts';
import { bootstrapTokenInvalid, loginFailed, refreshTokenInvalid } from './tenants.errors.ts';
import type { TokenTries } from './token-tries.ts';
import {
  type RefreshTokenRow,
  findRefreshToken,
  isBootstrapTokenOpen,
  setTenantOfBootstrapToken,
  useBootstrapToken,
  useRefreshToken,
} from './token.sql.ts';
import {
  type LoginRow,
  findLogin,
  findPasswordHash,
  insertUser,
  isKnownOrigin,
  lockUser,
} from './user.sql.ts';

export interface SessionServiceOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly opener: SessionOpener;
  readonly passwords: Passwords;
  readonly throttle: LoginThrottle;
  readonly tokenTries: TokenTries;
  readonly emailTries: EmailTries;
  readonly fingerprints: Fingerprints;
  /** Told after the sessions of a user have ended, so that this process stops trusting what it knew. */
  readonly onEnded: (userId: UserId) => void;
}

/** Rolls a sign-up back. */
class EmailInUse extends Error {}

/** Sign-up, login, refresh, logout: everything that hands out or ends a session. */
export class SessionService {
  readonly #options: SessionServiceOptions;

  constructor(options: SessionServiceOptions) {
    this.#options = options;
  }

  /**
   * Makes a tenant, its owner and a session from a bootstrap token, all or nothing. The token stays open when it fails.
   * @throws BOOTSTRAP_TOKEN_INVALID, EMAIL_TAKEN, EMAIL_TRIES_THROTTLED, TOKEN_THROTTLED
   */
  async signUp(body: SignUpBody, address: string): Promise<SignedUp> {
    const { database, passwords, tokenTries, emailTries, opener } = this.#options;
    tokenTries.check(address);
    const tokenHash = digestOf(body.bootstrapToken);
    // Strangers may not make us hash passwords. And hashing takes long, so it is done outside the transaction.
    if (!(await isBootstrapTokenOpen(database.requests, tokenHash))) {
      tokenTries.refused(address);
      throw bootstrapTokenInvalid();
    }
    const turn = turnOfClient(address, 'sign-up');
    const asker = { caller: turn.share, tenant: `bootstrap token ${tokenHash.toString('hex').slice(0, 12)}` };
    const email = normalisedEmail(body.email);
    const { tenant, opened } = await emailTries.run(asker, email, async () => {
      const passwordHash = await passwords.hash(turn, body.password);
      return database
        .transaction((tx) => this.#createTenant(tx, { ...body, email, tokenHash, passwordHash, address }))
        .catch((error: unknown) => {
          if (error instanceof EmailInUse) return undefined;
          throw error;
        });
    });
    return { tenant: toTenant(tenant), user: toUser(opened.user), session: await opener.sessionOf(opened) };
  }

  /** @throws LOGIN_FAILED, the same for every reason; LOGIN_THROTTLED; UNAVAILABLE when too many log in at once */
  async logIn(body: LoginBody, address: string): Promise<Session> {
    const { throttle, database, fingerprints, opener } = this.#options;
    const email = normalisedEmail(body.email);
    const attempt = await throttle.begin(email, address, () =>
      isKnownOrigin(database.requests, email, fingerprints.ofOrigin(address)),
    );
    let opened: Opened | undefined;
    try {
      const login = await this.#checkPassword(email, body.password, address);
      opened = login && (await this.#openFor(login, address));
    } catch (error) {
      attempt.undecided();
      throw error;
    }
    // A disabled user counts as a wrong password too, or the throttle would tell that the password was right.
    if (opened === undefined) throw loginFailed();
    attempt.succeeded();
    return opener.sessionOf(opened);
  }

  /**
   * Exchanges a refresh token for a new session of the same family. A token that is presented again has been copied, so all sessions of
   * its user end.
   * @throws REFRESH_TOKEN_INVALID, TOKEN_THROTTLED
   */
  async refresh(refreshToken: string, address: string): Promise<Session> {
    const opened = await this.#withToken(refreshToken, address, async (tx, token, tokenHash, end) => {
      if (token.state === 'used') await end();
      if (token.state !== 'open') return undefined;
      const holder = await SessionHolder.lock(tx, token.tenant_id, token.user_id);
      if (holder === undefined) return undefined;
      await useRefreshToken(tx, token.tenant_id, tokenHash);
      return this.#options.opener.open(holder, { familyId: token.family_id, address });
    });
    if (opened === undefined) {
      this.#options.tokenTries.refused(address);
      throw refreshTokenInvalid();
    }
    return this.#options.opener.sessionOf(opened);
  }

  /**
   * Ends all sessions of the user that a refresh token belongs to. One that has ended ends nothing more: whoever finds an old one cannot
   * log its user out again and again. An unknown one is no error.
   * @throws TOKEN_THROTTLED
   */
  async logOut(refreshToken: string, address: string): Promise<void> {
    const ended = await this.#withToken(refreshToken, address, async (_tx, token, _hash, end) => {
      if (token.state !== 'open' && token.state !== 'used') return undefined;
      await end();
      return true;
    });
    if (ended === undefined) this.#options.tokenTries.refused(address);
  }

  async #createTenant(
    tx: Transaction,
    order: SignUpBody & { tokenHash: Buffer; passwordHash: string; address: string },
  ): Promise<{ tenant: TenantRow; opened: Opened }> {
    const { tokenHash, passwordHash, address, email } = order;
    const now = this.#options.clock.now();
    if (!(await useBootstrapToken(tx, tokenHash))) throw bootstrapTokenInvalid();
    const tenant = await insertTenant(tx, newId<TenantId>(now), order.tenantName);
    await setTenantOfBootstrapToken(tx, tenant.tenant_id, tokenHash);
    const issuer = Issuer.operator(tx, tenant.tenant_id, 'bootstrap');
    const userId = newId<UserId>(now);
    const user = await insertUser(issuer, { userId, email, passwordHash, role: 'owner' });
    if (user === undefined) throw new EmailInUse();
    const holder = await SessionHolder.lock(tx, user.tenant_id, user.user_id);
    if (holder === undefined) throw new Error('the user that was just made is not active');
    return { tenant, opened: await this.#open(holder, address) };
  }

  async #checkPassword(email: string, password: string, address: string): Promise<LoginRow | undefined> {
    const login = await findLogin(this.#options.database.requests, email);
    const turn = turnOfClient(address, email);
    const matches = await this.#options.passwords.verify(turn, login?.password_hash, password);
    // Here and not in the transaction that follows, or its time would tell that the password of a disabled user was right.
    return matches && login?.disabled === false ? login : undefined;
  }

  /** Undefined when the user was disabled, or its password changed, while the password was checked. */
  #openFor(login: LoginRow, address: string): Promise<Opened | undefined> {
    return this.#options.database.transaction(async (tx) => {
      const { tenant_id, user_id, password_hash } = login;
      const holder = await SessionHolder.lock(tx, tenant_id, user_id);
      const current = await findPasswordHash(tx, tenant_id, user_id);
      return holder && current === password_hash ? this.#open(holder, address) : undefined;
    });
  }

  #open(holder: SessionHolder, address: string): Promise<Opened> {
    return this.#options.opener.open(holder, { familyId: randomUUID(), address });
  }

  /**
   * Runs `work` on a refresh token while nobody else can change the sessions of its user; undefined when there is no such token. What
   * `work` wrote is committed in any case.
   */
  async #withToken<T>(
    refreshToken: string,
    address: string,
    work: (
      tx: Transaction,
      token: RefreshTokenRow,
      tokenHash: Buffer,
      end: () => Promise<void>,
    ) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    this.#options.tokenTries.check(address);
    const tokenHash = digestOf(refreshToken);
    let ended: UserId | undefined;
    const result = await this.#options.database.transaction(async (tx) => {
      const found = await findRefreshToken(tx, tokenHash);
      if (found === undefined) return undefined;
      await lockUser(tx, found.tenant_id, found.user_id);
      // Read again: another request may have had the lock.
      const token = await findRefreshToken(tx, tokenHash);
      if (token === undefined) return undefined;
      return work(tx, token, tokenHash, () => {
        ended = token.user_id;
        return endSessions(tx, token.tenant_id, token.user_id);
      });
    });
    if (ended !== undefined) this.#options.onEnded(ended);
    return result;
  }
}
