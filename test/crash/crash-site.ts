import { rm } from 'node:fs/promises';
import pg from 'pg';
import { projectFile } from '../../src/app/paths.ts';
import type { Config } from '../../src/config/index.ts';
import { EmbeddedPostgres, temporaryDataDir } from '../../src/platform/db/embedded.ts';
import { migrate } from '../../src/platform/db/migrate.ts';
import { freePorts } from '../../src/platform/services/local-process.ts';
import { type SimulatedReceiver, type Simulator, startSimulator } from '../../src/simulator/index.ts';
import { createApiKey, createTenant, SCOPES } from '../../src/tenants/index.ts';
import { TEST_SECRETS } from '../support/relay.ts';
import { RelayClient } from '../support/relay-client.ts';
import { until } from '../support/until.ts';
import { Load, type LoadOptions } from './load.ts';
import { RelayChild } from './relay-child.ts';

export const LEASE_MS = 3_000;
const SETTLE_LIMIT_MS = 60_000;

/** A durable PostgreSQL, receivers in this process, and relays in processes that may be killed. */
export class CrashSite {
  readonly server: EmbeddedPostgres;
  readonly simulator: Simulator;
  readonly receiver: SimulatedReceiver;
  /** Where a relay listens that is not told otherwise. */
  readonly url: string;
  readonly adminUrl: string;
  readonly apiKey: string;
  readonly #dataDir: string;
  readonly #children = new Set<RelayChild>();

  private constructor(
    server: EmbeddedPostgres,
    dataDir: string,
    simulator: Simulator,
    ports: readonly [api: number, admin: number],
    apiKey: string,
  ) {
    this.server = server;
    this.#dataDir = dataDir;
    this.simulator = simulator;
    this.receiver = simulator.receiver('crash');
    this.url = `http://127.0.0.1:${ports[0]}`;
    this.adminUrl = `http://127.0.0.1:${ports[1]}`;
    this.apiKey = apiKey;
  }

  static async open(): Promise<CrashSite> {
    const dataDir = temporaryDataDir('crash');
    // While one of them is down clients keep dialling its port, and must not be given that port themselves.
    const [database, api, admin] = (await freePorts(3)) as [number, number, number];
    const settings = { max_connections: '200' };
    const server = await EmbeddedPostgres.start({ dataDir, port: database, settings });
    await migrate(server.url, projectFile('migrations'));
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    const { rows } = await client.query<{ fsync: string }>('SHOW fsync');
    if (rows[0]?.fsync !== 'on') throw new Error('this server would lose data in a crash');
    const tenantId = await createTenant(client, { name: 'Crash' });
    const { key } = await createApiKey(client, tenantId, { name: 'crash', scopes: SCOPES, actor: 'test' });
    await client.end();
    const simulator = await startSimulator({ keep: 0 });
    return new CrashSite(server, dataDir, simulator, [api, admin], key);
  }

  async close(): Promise<void> {
    for (const child of this.#children) await child.end('SIGKILL');
    await this.simulator.close();
    await this.server.stopServer('immediate');
    await rm(this.#dataDir, { recursive: true, force: true });
  }

  get api(): RelayClient {
    return new RelayClient(this.url, this.apiKey);
  }

  async start(instance: string, config: Partial<Config> = {}): Promise<RelayChild> {
    const child = await RelayChild.start({
      ...TEST_SECRETS,
      instance,
      'database.url': this.server.url,
      'log.level': 'warn',
      'http.port': Number(new URL(this.url).port),
      'http.adminPort': Number(new URL(this.adminUrl).port),
      'delivery.allowAddresses': ['127.0.0.1/32'],
      'delivery.leaseMs': LEASE_MS,
      'delivery.timeoutMs': 1_000,
      'delivery.maxTimeoutMs': 1_000,
      'delivery.leaseMarginMs': 500,
      'delivery.maxAttempts': 50,
      'delivery.backoffBaseMs': 100,
      'delivery.backoffCapMs': 500,
      'delivery.sweepMs': 500,
      ...config,
    });
    this.#children.add(child);
    return child;
  }

  load(options: Omit<LoadOptions, 'urls' | 'apiKey'> & Partial<LoadOptions>): Load {
    return new Load({ urls: [this.url], apiKey: this.apiKey, ...options });
  }

  async sql<Row extends pg.QueryResultRow>(text: string, ...values: unknown[]): Promise<Row[]> {
    const client = await this.session();
    try {
      return (await client.query<Row>(text, values)).rows;
    } finally {
      await client.end();
    }
  }

  async number(text: string, ...values: unknown[]): Promise<number> {
    const [row] = await this.sql<{ n: number }>(text, ...values);
    return row!.n;
  }

  /** A connection for whoever holds locks; the caller ends it. */
  async session(): Promise<pg.Client> {
    const client = new pg.Client({ connectionString: this.server.url, application_name: 'crash-test' });
    // A server that is stopped shows in the statement that follows.
    client.on('error', () => undefined);
    await client.connect();
    return client;
  }

  /** Deliveries that a process which is gone had leased. Statements that it left running at the server count once they are done. */
  async leasedByTheDead(instance: string): Promise<number> {
    await until(
      'its sessions have ended',
      () =>
        this.number(
          'SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name LIKE $1',
          `relayops:${instance}%`,
        ),
      (sessions) => sessions === 0,
    );
    return this.leasedBy(instance);
  }

  leasedBy(instance: string): Promise<number> {
    return this.number(
      'SELECT count(*)::int AS n FROM relayops.delivery_work WHERE leased_by = $1 AND lease_token IS NOT NULL',
      instance,
    );
  }

  /** Waits until nothing is open any more. */
  async settle(): Promise<void> {
    await until(
      'no open delivery',
      () => this.number('SELECT count(*)::int AS n FROM relayops.delivery_work'),
      (open) => open === 0,
      SETTLE_LIMIT_MS,
    );
  }
}

/** Progress for whoever watches: these tests take minutes. */
export function say(text: string): void {
  process.stdout.write(`  ${text}\n`);
}
