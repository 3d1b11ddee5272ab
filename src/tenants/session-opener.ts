import type { Transaction } from '../platform/db/database.ts';
import type { TenantId, UserId } from '../shared/ids.ts';
import type { AccessTokens } from './access-token.ts';
import type { Fingerprints } from './client.ts';
import { digestOf, mintToken } from './secret-token.ts';
import type { SessionHolder } from './session-holder.ts';
import type { Session } from './session.schemas.ts';
import { insertRefreshToken, revokeRefreshTokensOfUser } from './token.sql.ts';
import { type UserRow, raiseGeneration } from './user.sql.ts';

export interface SessionOpenerOptions {
  readonly accessTokens: AccessTokens;
  readonly fingerprints: Fingerprints;
  /** Life of a refresh token in seconds. */
  readonly refreshTokenTtlS: number;
}

/** A user with a refresh token that was just stored, still without an access token. */
export interface Opened {
  readonly user: UserRow;
  readonly refreshToken: string;
}

/** Where a session goes on: its family of refresh tokens, and the address of the client. */
export interface SessionPlace {
  readonly familyId: string;
  readonly address: string;
}

/** Stores refresh tokens, and signs access tokens once they are committed. */
export class SessionOpener {
  readonly #options: SessionOpenerOptions;

  constructor(options: SessionOpenerOptions) {
    this.#options = options;
  }

  async open(holder: SessionHolder, { familyId, address }: SessionPlace): Promise<Opened> {
    const refreshToken = mintToken('refresh');
    await insertRefreshToken(holder, {
      hash: digestOf(refreshToken),
      familyId,
      ttlS: this.#options.refreshTokenTtlS,
      originHash: this.#options.fingerprints.ofOrigin(address),
    });
    return { user: holder.user, refreshToken };
  }

  /** After the commit. */
  async sessionOf({ user, refreshToken }: Opened): Promise<Session> {
    const { accessTokens } = this.#options;
    const subject = { tenantId: user.tenant_id, userId: user.user_id, generation: user.generation };
    return {
      tokenType: 'Bearer',
      accessToken: await accessTokens.sign(subject, user.role),
      expiresInSeconds: accessTokens.ttlS,
      refreshToken,
    };
  }
}

/**
 * Ends every session of a user, under the lock on its row: refresh tokens with the commit, access tokens here once the authenticator
 * drops what it knows, and elsewhere within the trusted time.
 */
export async function endSessions(tx: Transaction, tenantId: TenantId, userId: UserId): Promise<void> {
  await revokeRefreshTokensOfUser(tx, tenantId, userId);
  await raiseGeneration(tx, tenantId, userId);
}
