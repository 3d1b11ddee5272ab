import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../config/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { HttpServer } from '../platform/http/server.ts';
import { type Clock, monotonicClock } from '../shared/clock.ts';
import { AccessTokens } from './access-token.ts';
import { tenantAccountRoutes, userRoutes } from './account.routes.ts';
import { apiKeyRoutes } from './api-key.routes.ts';
import { ApiKeyService } from './api-key.service.ts';
import { type Authenticator, CachingAuthenticator } from './authenticator.ts';
import { Fingerprints } from './client.ts';
import { EmailTries } from './email-tries.ts';
import { LastUsed } from './last-used.ts';
import { LoginThrottle } from './login-throttle.ts';
import { passwordRoutes } from './password.routes.ts';
import { PasswordService } from './password.service.ts';
import { Passwords } from './passwords.ts';
import { SessionOpener } from './session-opener.ts';
import { sessionRoutes } from './session.routes.ts';
import { SessionService } from './session.service.ts';
import { TenantService } from './tenant.service.ts';
import { TokenTries } from './token-tries.ts';
import { UserService } from './user.service.ts';

export interface TenantsDeps {
  readonly database: Database;
  readonly config: Pick<
    Config,
    | 'auth.jwtSecret'
    | 'auth.accessTokenTtlS'
    | 'auth.refreshTokenTtlS'
    | 'auth.passwordResetTtlS'
    | 'auth.keyCacheMs'
    | 'auth.keyRotationOverlapS'
  >;
  readonly clock: Clock;
  /** For durations. Default: that of the process; tests hold it. */
  readonly monotonic?: Clock;
  readonly logger: Pick<FastifyBaseLogger, 'warn'>;
}

/** Identity and tenancy in one process. Hand `authenticator` to `registerAuthentication`, and the whole to `tenantRoutes`. */
export interface TenantsService {
  readonly authenticator: Authenticator;
  readonly sessions: SessionService;
  readonly tenants: TenantService;
  readonly users: UserService;
  readonly apiKeys: ApiKeyService;
  readonly passwords: PasswordService;
  /** Writes what is known about the last use of keys and stops the timer. Call it before the database is closed. */
  close(): Promise<void>;
}

/** @throws Error when `auth.jwtSecret` is empty: without it anybody could sign access tokens */
export function createTenantsService(deps: TenantsDeps): TenantsService {
  const { database, config, clock, logger, monotonic = monotonicClock } = deps;
  const accessTokens = new AccessTokens(config['auth.jwtSecret'], config['auth.accessTokenTtlS'], clock);
  const fingerprints = new Fingerprints(config['auth.jwtSecret']);
  const lastUsed = new LastUsed(database.requests, monotonic, logger);
  const authenticator = new CachingAuthenticator({
    db: database.requests,
    clock: monotonic,
    trustMs: config['auth.keyCacheMs'],
    accessTokens,
    lastUsed,
  });
  const dropUser = authenticator.dropUser.bind(authenticator);
  const shared = {
    database,
    clock,
    fingerprints,
    opener: new SessionOpener({
      accessTokens,
      fingerprints,
      refreshTokenTtlS: config['auth.refreshTokenTtlS'],
    }),
    passwords: new Passwords(),
    throttle: new LoginThrottle(monotonic),
    tokenTries: new TokenTries(monotonic),
    emailTries: new EmailTries({
      clock: monotonic,
      logger,
      fingerprintOf: (email) => fingerprints.ofEmail(email),
    }),
  };
  return {
    authenticator,
    sessions: new SessionService({ ...shared, onEnded: dropUser }),
    passwords: new PasswordService({
      ...shared,
      resetTtlS: config['auth.passwordResetTtlS'],
      onEnded: dropUser,
    }),
    tenants: new TenantService(database.requests),
    users: new UserService({ ...shared, onChanged: dropUser }),
    apiKeys: new ApiKeyService({
      database,
      clock,
      rotationOverlapS: config['auth.keyRotationOverlapS'],
      onChanged: (keyHash) => authenticator.dropKey(keyHash),
    }),
    close: () => lastUsed.close(),
  };
}

/** Adds the routes of this feature. `registerAuthentication` comes first. */
export function tenantRoutes(app: HttpServer, service: TenantsService): void {
  sessionRoutes(app, service.sessions);
  tenantAccountRoutes(app, service.tenants);
  userRoutes(app, service.users);
  passwordRoutes(app, service.passwords);
  apiKeyRoutes(app, service.apiKeys);
}
