import { randomUUID } from 'node:crypto';
import type { Database, Transaction } from '../platform/db/database.ts';
import type { Clock } from '../shared/clock.ts';
import { type TenantId, type UserId, newId } from '../shared/ids.ts';
import type { AccessTokens } from './access-token.ts';
import { toTenant, toUser } from './account.dto.ts';
import { normalisedEmail } from './email.ts';
import type { LoginThrottle } from './login-throttle.ts';
import type { Passwords } from './passwords.ts';
import { digestOf, mintToken } from './secret-token.ts';
import type { LoginBody, Session, SignUpBody, SignedUp } from './session.schemas.ts';
import { type TenantRow, insertTenant } from './tenant.sql.ts';
import { bootstrapTokenInvalid, emailTaken, loginFailed, refreshTokenInvalid } from './tenants.errors.ts';
import {
  findRefreshToken,
  insertRefreshToken,
  isBootstrapTokenOpen,
  revokeFamily,
  setTenantOfBootstrapToken,
  useBootstrapToken,
  useRefreshToken,
} from './token.sql.ts';
import { type LoginRow, type UserRow, findLogin, insertUser, lockUser } from './user.sql.ts';

export interface SessionServiceOptions {
  readonly database: Database;
  readonly clock: Clock;
  readonly accessTokens: AccessTokens;
  readonly passwords: Passwords;
  readonly throttle: LoginThrottle;
  /** Life of a refresh token in seconds. */
  readonly refreshTokenTtlS: number;
}

/** A user with a refresh token that was just stored, still without an access token. */
interface Opened {
  readonly user: UserRow;
  readonly refreshToken: string;
}

/** Sign-up, login, refresh, logout: everything that hands out or ends a session. */
export class SessionService {
  readonly #options: SessionServiceOptions;

  constructor(options: SessionServiceOptions) {
    this.#options = options;
  }

  /**
   * Makes a tenant, its owner and a session from a bootstrap token, all or nothing. The token stays open when it fails.
   * @throws BOOTSTRAP_TOKEN_INVALID, EMAIL_TAKEN
   */
  async signUp(body: SignUpBody): Promise<SignedUp> {
    const { database, passwords } = this.#options;
    const tokenHash = digestOf(body.bootstrapToken);
    // Strangers may not make us hash passwords. And hashing takes long, so it is done outside the transaction.
    if (!(await isBootstrapTokenOpen(database.requests, tokenHash))) throw bootstrapTokenInvalid();
    const passwordHash = await passwords.hash(body.password);
    const { tenant, opened } = await database.transaction((tx) =>
      this.#createTenant(tx, body, tokenHash, passwordHash),
    );
    return {
      tenant: toTenant(tenant),
      user: toUser(opened.user),
      session: await this.#sessionOf(opened),
    };
  }

  /** @throws LOGIN_FAILED, the same for every reason; LOGIN_THROTTLED; UNAVAILABLE when too many log in at once */
  async logIn(body: LoginBody, address: string): Promise<Session> {
    const { throttle, database } = this.#options;
    const email = normalisedEmail(body.email);
    throttle.begin(email, address);
    let login: LoginRow | undefined;
    try {
      login = await this.#checkPassword(email, body.password);
    } catch (error) {
      throttle.undecided(email, address);
      throw error;
    }
    if (login === undefined) throw loginFailed();
    throttle.succeeded(email, address);
    const { tenant_id, user_id } = login;
    const opened = await database.transaction(async (tx) => {
      const user = await lockUser(tx, tenant_id, user_id);
      return user && user.disabled_at === null ? this.#open(tx, user, randomUUID()) : undefined;
    });
    if (opened === undefined) throw loginFailed();
    return this.#sessionOf(opened);
  }

  /**
   * Exchanges a refresh token for a new session of the same family. A token that is presented again has been copied, so its whole
   * family ends.
   * @throws REFRESH_TOKEN_INVALID
   */
  async refresh(refreshToken: string): Promise<Session> {
    const opened = await this.#withFamily(refreshToken, async (tx, family, user) => {
      // An expired one has no successors and a revoked one's family has ended: ending it again changes nothing.
      if (!(await useRefreshToken(tx, family.tenantId, family.tokenHash)))
        await revokeFamily(tx, family.tenantId, family.familyId);
      else if (user && user.disabled_at === null) return this.#open(tx, user, family.familyId);
      return undefined;
    });
    // Thrown after the commit, which keeps the revocation.
    if (opened === undefined) throw refreshTokenInvalid();
    return this.#sessionOf(opened);
  }

  /** Ends the session of a refresh token. An unknown one is no error. Access tokens run out by themselves. */
  async logOut(refreshToken: string): Promise<void> {
    await this.#withFamily(refreshToken, async (tx, family) => {
      await revokeFamily(tx, family.tenantId, family.familyId);
      return undefined;
    });
  }

  async #createTenant(
    tx: Transaction,
    body: SignUpBody,
    tokenHash: Buffer,
    passwordHash: string,
  ): Promise<{ tenant: TenantRow; opened: Opened }> {
    const now = this.#options.clock.now();
    if (!(await useBootstrapToken(tx, tokenHash))) throw bootstrapTokenInvalid();
    const tenant = await insertTenant(tx, newId<TenantId>(now), body.tenantName);
    await setTenantOfBootstrapToken(tx, tenant.tenant_id, tokenHash);
    const user = await insertUser(tx, tenant.tenant_id, {
      userId: newId<UserId>(now),
      email: normalisedEmail(body.email),
      passwordHash,
      role: 'owner',
    });
    if (user === undefined) throw emailTaken();
    return { tenant, opened: await this.#open(tx, user, randomUUID()) };
  }

  async #checkPassword(email: string, password: string): Promise<LoginRow | undefined> {
    const login = await findLogin(this.#options.database.requests, email);
    const matches = await this.#options.passwords.verify(login?.password_hash, password);
    return matches ? login : undefined;
  }

  /** Runs `work` on the family of a refresh token while no other request can change it; undefined when there is no such token. */
  async #withFamily<T>(
    refreshToken: string,
    work: (
      tx: Transaction,
      family: { tenantId: TenantId; familyId: string; tokenHash: Buffer },
      user: UserRow | undefined,
    ) => Promise<T | undefined>,
  ): Promise<T | undefined> {
    const tokenHash = digestOf(refreshToken);
    return this.#options.database.transaction(async (tx) => {
      const row = await findRefreshToken(tx, tokenHash);
      if (row === undefined) return undefined;
      const user = await lockUser(tx, row.tenant_id, row.user_id);
      return work(tx, { tenantId: row.tenant_id, familyId: row.family_id, tokenHash }, user);
    });
  }

  async #open(tx: Transaction, user: UserRow, familyId: string): Promise<Opened> {
    const refreshToken = mintToken('refresh');
    await insertRefreshToken(tx, user.tenant_id, {
      hash: digestOf(refreshToken),
      familyId,
      userId: user.user_id,
      ttlS: this.#options.refreshTokenTtlS,
    });
    return { user, refreshToken };
  }

  async #sessionOf({ user, refreshToken }: Opened): Promise<Session> {
    const { accessTokens } = this.#options;
    const subject = { tenantId: user.tenant_id, userId: user.user_id };
    return {
      tokenType: 'Bearer',
      accessToken: await accessTokens.sign(subject, user.role),
      expiresInSeconds: accessTokens.ttlS,
      refreshToken,
    };
  }
}
