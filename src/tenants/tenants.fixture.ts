import { randomUUID } from 'node:crypto';
import { pino } from 'pino';
import { testHttpLimits } from '../../test/support/http-limits.ts';
import { loadConfig } from '../config/index.ts';
import type { Config } from '../config/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { Clock } from '../shared/clock.ts';
import { type HttpServer, createHttpServer } from '../platform/http/server.ts';
import {
  type TenantsService,
  createBootstrapToken,
  createTenantsService,
  registerAuthentication,
  tenantRoutes,
} from './index.ts';
import type { Session, SignedUp } from './session.schemas.ts';

export const PASSWORD = 'correct horse battery';

export interface Answer<Body = Record<string, unknown>> {
  readonly status: number;
  readonly body: Body;
  readonly headers: Record<string, unknown>;
  readonly text: string;
}

export interface Member extends SignedUp {
  readonly token: string;
  readonly email: string;
}

/** The feature behind a real server without a socket, with a clock that tests hold. */
export class TenantsApp {
  readonly database: Database;
  readonly app: HttpServer;
  readonly service: TenantsService;
  readonly clock: { ms: number; now(): number };

  private constructor(
    database: Database,
    app: HttpServer,
    service: TenantsService,
    clock: TenantsApp['clock'],
  ) {
    this.database = database;
    this.app = app;
    this.service = service;
    this.clock = clock;
  }

  /** `addRoutes` runs between the guard and the start; `log` gets the lines from level info on. `monotonic` is the wall clock, if not given. */
  static async start(
    database: Database,
    options: {
      config?: Partial<Config>;
      addRoutes?: (app: HttpServer) => void;
      log?: string[];
      monotonic?: Clock;
    } = {},
  ): Promise<TenantsApp> {
    const config = loadConfig({}, { 'auth.jwtSecret': 's'.repeat(32), ...options.config });
    const { log } = options;
    const logger = log
      ? pino({ level: 'info' }, { write: (line: string) => void log.push(line) })
      : pino({ level: 'silent' });
    const clock = {
      ms: Date.now(),
      now(): number {
        return this.ms;
      },
    };
    const app = await createHttpServer({
      logger,
      maxBodyBytes: 65_536,
      limits: testHttpLimits,
      documentation: { version: 'test' },
    });
    const service = createTenantsService({
      database,
      config,
      clock,
      monotonic: options.monotonic ?? clock,
      logger,
    });
    registerAuthentication(app, service.authenticator);
    tenantRoutes(app, service);
    options.addRoutes?.(app);
    await app.ready();
    return new TenantsApp(database, app, service, clock);
  }

  async close(): Promise<void> {
    await this.app.close();
    await this.service.close();
  }

  async call<Body = Record<string, unknown>>(
    method: 'GET' | 'POST' | 'PATCH' | 'DELETE',
    url: string,
    { token, body, from }: { token?: string | undefined; body?: unknown; from?: string } = {},
  ): Promise<Answer<Body>> {
    const answer = await this.app.inject({
      method,
      url,
      ...(from === undefined ? {} : { remoteAddress: from }),
      headers: token === undefined ? {} : { authorization: `Bearer ${token}` },
      ...(body === undefined ? {} : { body: body as object }),
    });
    const text = answer.body;
    const parsed = (text === '' ? {} : JSON.parse(text)) as Body;
    return { status: answer.statusCode, body: parsed, headers: answer.headers, text };
  }

  /** A new tenant with its owner. */
  async signUp(tenantName = 'Acme'): Promise<Member> {
    const email = `${randomUUID()}@example.com`;
    const bootstrapToken = await createBootstrapToken(this.database.requests, { ttlS: 60 });
    const { status, body, text } = await this.call<SignedUp>('POST', '/v1/signup', {
      body: { bootstrapToken, tenantName, email, password: PASSWORD },
    });
    if (status !== 201) throw new Error(text);
    return { ...body, token: body.session.accessToken, email };
  }

  /** A further user of the owner's tenant, logged in. */
  async addUser(
    owner: Member,
    role: string,
  ): Promise<{ userId: string; email: string; token: string; refreshToken: string }> {
    const email = `${randomUUID()}@example.com`;
    const added = await this.call<{ userId: string }>('POST', '/v1/users', {
      token: owner.token,
      body: { email, password: PASSWORD, role },
    });
    if (added.status !== 201) throw new Error(added.text);
    const login = await this.call<Session>('POST', '/v1/auth/login', {
      body: { email, password: PASSWORD },
    });
    const { accessToken, refreshToken } = login.body;
    return { userId: added.body.userId, email, token: accessToken, refreshToken };
  }

  /** Runs SQL that moves the times of rows, so that no test has to wait. */
  async sql(text: string, ...values: unknown[]): Promise<Record<string, unknown>[]> {
    return (await this.database.requests.query<Record<string, unknown>>({ text, values })).rows;
  }
}
