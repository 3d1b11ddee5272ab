import { SignJWT, errors, jwtVerify } from 'jose';
import type { Clock } from '../shared/clock.ts';
import { type TenantId, type UserId, isId } from '../shared/ids.ts';
import { credentialExpired, credentialInvalid } from './tenants.errors.ts';
import type { Role } from './scopes.ts';

const ISSUER = 'relayops';
const AUDIENCE = 'relayops-api';
/** Media type of JWT access tokens (RFC 9068, 2.1): a JWT made for another purpose with the same key is refused. */
const TYPE = 'at+jwt';

/** Whom an access token was given to. What the user may do now is looked up, not read from the token. */
export interface TokenSubject {
  readonly tenantId: TenantId;
  readonly userId: UserId;
  /** The user's generation at that time: the token ends when it rises. */
  readonly generation: number;
}

/** Signs and checks access tokens (JWT, HS256). Neither does I/O. */
export class AccessTokens {
  readonly #secret: Uint8Array;
  readonly #clock: Clock;
  /** Life of a token in seconds. */
  readonly ttlS: number;

  /** @throws Error when the secret is empty or too short for HS256 (RFC 7518, 3.2: 256 bits) */
  constructor(secret: string, ttlS: number, clock: Clock) {
    this.#secret = new TextEncoder().encode(secret);
    if (this.#secret.length < 32) throw new Error('auth.jwtSecret must be set, to 32 characters at least');
    this.ttlS = ttlS;
    this.#clock = clock;
  }

  async sign(subject: TokenSubject, role: Role): Promise<string> {
    const nowS = Math.floor(this.#clock.now() / 1000);
    return new SignJWT({ tenant: subject.tenantId, role, gen: subject.generation })
      .setProtectedHeader({ alg: 'HS256', typ: TYPE })
      .setIssuer(ISSUER)
      .setAudience(AUDIENCE)
      .setSubject(subject.userId)
      .setIssuedAt(nowS)
      .setExpirationTime(nowS + this.ttlS)
      .sign(this.#secret);
  }

  /**
   * A token of before generations has none and counts as 0: it goes on until it expires or something ends its user's sessions.
   * @throws CREDENTIAL_EXPIRED or CREDENTIAL_INVALID
   */
  async verify(token: string): Promise<TokenSubject> {
    const { sub, tenant, gen = 0 } = await this.#claims(token);
    if (typeof sub !== 'string' || typeof tenant !== 'string' || !isId(sub) || !isId(tenant))
      throw credentialInvalid();
    if (typeof gen !== 'number' || !Number.isSafeInteger(gen)) throw credentialInvalid();
    return { userId: sub as UserId, tenantId: tenant as TenantId, generation: gen };
  }

  async #claims(token: string): Promise<Record<string, unknown>> {
    try {
      const { payload } = await jwtVerify(token, this.#secret, {
        algorithms: ['HS256'],
        issuer: ISSUER,
        audience: AUDIENCE,
        typ: TYPE,
        requiredClaims: ['exp', 'sub'],
        currentDate: new Date(this.#clock.now()),
      });
      return payload;
    } catch (error) {
      if (error instanceof errors.JWTExpired) throw credentialExpired({ cause: error });
      if (error instanceof errors.JOSEError) throw credentialInvalid({ cause: error });
      throw error;
    }
  }
}
