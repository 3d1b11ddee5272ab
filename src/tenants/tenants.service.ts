import type { FastifyBaseLogger } from 'fastify';
import type { Config } from '../config/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { HttpServer } from '../platform/http/server.ts';
import type { Clock } from '../shared/clock.ts';
import { AccessTokens } from './access-token.ts';
import { tenantAccountRoutes, userRoutes } from './account.routes.ts';
import { apiKeyRoutes } from './api-key.routes.ts';
import { ApiKeyService } from './api-key.service.ts';
import { type Authenticator, CachingAuthenticator } from './authenticator.ts';
import { LastUsed } from './last-used.ts';
import { LoginThrottle } from './login-throttle.ts';
import { Passwords } from './passwords.ts';
import { sessionRoutes } from './session.routes.ts';
import { SessionService } from './session.service.ts';
import { TenantService } from './tenant.service.ts';
import { UserService } from './user.service.ts';

export interface TenantsDeps {
  readonly database: Database;
  readonly config: Pick<
    Config,
    | 'auth.jwtSecret'
    | 'auth.accessTokenTtlS'
    | 'auth.refreshTokenTtlS'
    | 'auth.keyCacheMs'
    | 'auth.keyRotationOverlapS'
  >;
  readonly clock: Clock;
  readonly logger: Pick<FastifyBaseLogger, 'warn'>;
}

/** Identity and tenancy in one process. Hand `authenticator` to `registerAuthentication`, and the whole to `tenantRoutes`. */
export interface TenantsService {
  readonly authenticator: Authenticator;
  readonly sessions: SessionService;
  readonly tenants: TenantService;
  readonly users: UserService;
  readonly apiKeys: ApiKeyService;
  /** Writes what is known about the last use of keys and stops the timer. Call it before the database is closed. */
  close(): Promise<void>;
}

/** @throws Error when `auth.jwtSecret` is empty: without it anybody could sign access tokens */
export function createTenantsService({ database, config, clock, logger }: TenantsDeps): TenantsService {
  const accessTokens = new AccessTokens(config['auth.jwtSecret'], config['auth.accessTokenTtlS'], clock);
  const passwords = new Passwords();
  const lastUsed = new LastUsed(database.requests, clock, logger);
  const authenticator = new CachingAuthenticator({
    db: database.requests,
    clock,
    trustMs: config['auth.keyCacheMs'],
    accessTokens,
    lastUsed,
  });
  return {
    authenticator,
    sessions: new SessionService({
      database,
      clock,
      accessTokens,
      passwords,
      throttle: new LoginThrottle(clock),
      refreshTokenTtlS: config['auth.refreshTokenTtlS'],
    }),
    tenants: new TenantService(database.requests),
    users: new UserService({
      database,
      clock,
      passwords,
      onChanged: (userId) => authenticator.dropUser(userId),
    }),
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
  apiKeyRoutes(app, service.apiKeys);
}
