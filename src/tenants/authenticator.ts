import type { Queryable } from '../platform/db/database.ts';
import type { Clock } from '../shared/clock.ts';
import type { ApiKeyId, TenantId, UserId } from '../shared/ids.ts';
import type { AccessTokens, TokenSubject } from './access-token.ts';
import { type AuthenticationRow, findApiKeyByHash } from './api-key.sql.ts';
import type { LastUsed } from './last-used.ts';
import { type Principal, isScope, scopesOfRole } from './scopes.ts';
import { digestOf, digestTextOf, isApiKeyShaped } from './secret-token.ts';
import { credentialExpired, credentialInvalid, credentialRevoked } from './tenants.errors.ts';
import { type Finding, TrustedCache } from './trusted-cache.ts';
import { type UserRow, findUser, isActive } from './user.sql.ts';

/** Turns a bearer token into a principal. What `registerAuthentication` asks. */
export interface Authenticator {
  /** The principal when it is known without I/O: the path of nearly every request with an API key. */
  known(token: string): Principal | undefined;
  /**
   * @param freshly asks the database, whatever is trusted: for what lasts longer than the trusted time
   * @throws CREDENTIAL_INVALID, CREDENTIAL_EXPIRED, CREDENTIAL_REVOKED; the database's own error when it is away
   */
  authenticate(token: string, freshly?: boolean): Promise<Principal>;
}

type KeyFinding =
  | { readonly kind: 'active'; readonly apiKeyId: ApiKeyId; readonly principal: Principal }
  | { readonly kind: 'unknown' | 'revoked' | 'expired' };

interface UserFinding {
  /** Below all when there is no such user. */
  readonly generation: number;
  /** Null when the user is disabled, deleted or not there. */
  readonly principal: Principal | null;
}

export interface AuthenticatorOptions {
  readonly db: Queryable;
  /** A monotonic one: a wall clock that is set back would lengthen the trust. */
  readonly clock: Clock;
  /** How long a finding is trusted: the longest time for which a revoked key or a disabled user goes on. */
  readonly trustMs: number;
  readonly accessTokens: AccessTokens;
  readonly lastUsed: LastUsed;
}

const MAX_KEYS = 10_000;
const MAX_USERS = 10_000;

/** Checks API keys and access tokens against the database, and trusts what it found for a short time. */
export class CachingAuthenticator implements Authenticator {
  readonly #options: AuthenticatorOptions;
  readonly #keys: TrustedCache<KeyFinding>;
  readonly #users: TrustedCache<UserFinding>;

  constructor(options: AuthenticatorOptions) {
    this.#options = options;
    this.#keys = new TrustedCache(options.clock, MAX_KEYS);
    this.#users = new TrustedCache(options.clock, MAX_USERS);
  }

  known(token: string): Principal | undefined {
    if (!token.startsWith('rok_')) return undefined;
    const finding = this.#keys.peek(digestTextOf(token));
    return finding?.kind === 'active' ? this.#used(finding.apiKeyId, finding.principal) : undefined;
  }

  async authenticate(token: string, freshly = false): Promise<Principal> {
    return token.startsWith('rok_')
      ? this.#authenticateKey(token, freshly)
      : this.#authenticateUser(token, freshly);
  }

  /** Makes this process look again at once after a key was revoked or shortened. */
  dropKey(keyHash: Buffer): void {
    this.#keys.drop(keyHash.toString('hex'));
  }

  /** Makes this process look again at once after a user's role or state changed, or its sessions ended. */
  dropUser(userId: UserId): void {
    this.#users.drop(userId);
  }

  async #authenticateKey(key: string, freshly: boolean): Promise<Principal> {
    if (!isApiKeyShaped(key)) throw credentialInvalid();
    const hash = digestOf(key);
    if (freshly) this.dropKey(hash);
    const finding = await this.#keys.get(hash.toString('hex'), async () =>
      judgeKey(await findApiKeyByHash(this.#options.db, hash), this.#options.trustMs),
    );
    switch (finding.kind) {
      case 'active':
        return this.#used(finding.apiKeyId, finding.principal);
      case 'unknown':
        throw credentialInvalid();
      case 'expired':
        throw credentialExpired();
      case 'revoked':
        throw credentialRevoked();
    }
  }

  async #authenticateUser(token: string, freshly: boolean): Promise<Principal> {
    const subject = await this.#options.accessTokens.verify(token);
    if (freshly) this.dropUser(subject.userId);
    let finding = await this.#findUser(subject);
    if (finding.generation < subject.generation) {
      // The token is newer than what is trusted here: the user has logged in through another process since.
      this.dropUser(subject.userId);
      finding = await this.#findUser(subject);
    }
    if (finding.principal === null || finding.generation !== subject.generation) throw credentialRevoked();
    return finding.principal;
  }

  #findUser({ tenantId, userId }: TokenSubject): Promise<UserFinding> {
    return this.#users.get(userId, async () => {
      const user = await findUser(this.#options.db, tenantId, userId);
      return { value: judgeUser(user), trustMs: this.#options.trustMs };
    });
  }

  #used(apiKeyId: ApiKeyId, principal: Principal): Principal {
    this.#options.lastUsed.note(principal.tenantId, apiKeyId);
    return principal;
  }
}

/**
 * What a look-up of a key means. A key is trusted no longer than it lives, by the database's clock. Unknown keys are not kept: only
 * keys that exist take room, so that guessing cannot push the others out.
 */
function judgeKey(row: AuthenticationRow | undefined, trustMs: number): Finding<KeyFinding> {
  if (row === undefined) return { value: { kind: 'unknown' }, trustMs: 0 };
  if (row.revoked) return { value: { kind: 'revoked' }, trustMs };
  if (row.expires_in_ms !== null && row.expires_in_ms <= 0) return { value: { kind: 'expired' }, trustMs };
  const principal = keyPrincipal(row.tenant_id, row.api_key_id, row.scopes);
  return {
    value: { kind: 'active', apiKeyId: row.api_key_id, principal },
    trustMs: Math.min(trustMs, row.expires_in_ms ?? Infinity),
  };
}

function keyPrincipal(tenantId: TenantId, apiKeyId: ApiKeyId, scopes: readonly string[]): Principal {
  return Object.freeze({
    tenantId,
    actor: `key:${apiKeyId}`,
    scopes: new Set(scopes.filter(isScope)),
    generation: null,
  });
}

function judgeUser(user: UserRow | undefined): UserFinding {
  if (user === undefined) return { generation: -1, principal: null };
  const { tenant_id: tenantId, user_id: userId, role, generation } = user;
  if (!isActive(user)) return { generation, principal: null };
  const actor = `user:${userId}`;
  return {
    generation,
    principal: Object.freeze({ tenantId, actor, scopes: scopesOfRole(role), generation }),
  };
}
