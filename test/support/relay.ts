import { pino } from 'pino';
import { type Config, loadConfig } from '../../src/config/index.ts';
import { type RelayProcess, startProcess } from '../../src/app/process.ts';
import { describeError, type Logger } from '../../src/platform/telemetry/logger.ts';
import type { TenantId } from '../../src/shared/ids.ts';
import { type SimulatedReceiver, type Simulator, startSimulator } from '../../src/simulator/index.ts';
import { createApiKey, createTenant, SCOPES, type Scope } from '../../src/tenants/index.ts';
import { type TestDatabase, testDatabase } from './database.ts';
import { RelayClient } from './relay-client.ts';

export const TEST_SECRETS = {
  'auth.jwtSecret': 'a-secret-of-tests-that-is-long-enough',
  'secrets.key': Buffer.alloc(32, 7).toString('base64'),
} as const;

/** Times short enough for tests; whatever a test is about it sets itself. */
const QUICK: Partial<Config> = {
  ...TEST_SECRETS,
  'http.port': 0,
  'http.adminPort': 0,
  'log.level': 'error',
  'shutdown.timeoutMs': 5_000,
  'delivery.allowAddresses': ['127.0.0.1/32'],
  'delivery.pollMs': 50,
  'delivery.sweepMs': 100,
  'delivery.timeoutMs': 2_000,
  'delivery.maxTimeoutMs': 3_000,
  'delivery.connectTimeoutMs': 1_000,
  'delivery.leaseMs': 6_000,
  'delivery.leaseMarginMs': 1_000,
  'delivery.backoffBaseMs': 20,
  'delivery.backoffFactor': 2,
  'delivery.backoffCapMs': 100,
  'delivery.deferMs': 50,
  'ingest.backlogSampleMs': 50,
  // Rounds are run by the tests that are about them; one comes at the start.
  'janitor.intervalMs': 3_600_000,
};

export interface Tenant {
  readonly tenantId: TenantId;
  readonly api: RelayClient;
}

/** A whole relay in this process on a database of its own, a simulator for it to deliver to, and a tenant with a key. */
export class Relay {
  readonly test: TestDatabase;
  readonly simulator: Simulator;
  readonly tenantId: TenantId;
  /** The tenant's client, against the first process. */
  readonly api: RelayClient;
  /** The first process. */
  readonly process: RelayProcess;
  readonly #config: Partial<Config>;
  readonly #processes: RelayProcess[];
  /** Errors that the processes logged, one JSON line each. */
  readonly #log: string[];

  private constructor(
    test: TestDatabase,
    simulator: Simulator,
    process: RelayProcess,
    tenant: Tenant,
    config: Partial<Config>,
    log: string[],
  ) {
    this.test = test;
    this.simulator = simulator;
    this.process = process;
    this.tenantId = tenant.tenantId;
    this.api = tenant.api;
    this.#config = config;
    this.#processes = [process];
    this.#log = log;
  }

  static async start(config: Partial<Config> = {}): Promise<Relay> {
    const test = await testDatabase();
    const simulator = await startSimulator();
    const log: string[] = [];
    const process = await launch(test, config, log);
    return new Relay(test, simulator, process, await newTenant(test, process.url), config, log);
  }

  /** A further process on the same database. */
  async startAnother(config: Partial<Config> = {}): Promise<RelayProcess> {
    const process = await launch(this.test, { ...this.#config, ...config }, this.#log);
    this.#processes.push(process);
    return process;
  }

  newTenant(scopes: readonly Scope[] = SCOPES): Promise<Tenant> {
    return newTenant(this.test, this.process.url, scopes);
  }

  /** A further key of the tenant. */
  async newKey(scopes: readonly Scope[]): Promise<RelayClient> {
    const order = { name: 'test', scopes, actor: 'test' };
    const { key } = await createApiKey(this.test.database.requests, this.tenantId, order);
    return new RelayClient(this.process.url, key);
  }

  /** Probes and metrics of the first process. */
  get admin(): RelayClient {
    return new RelayClient(this.process.adminUrl, '');
  }

  receiver(name: string): SimulatedReceiver {
    return this.simulator.receiver(name);
  }

  /** Reads facts that the API does not show, and moves times so that no test has to wait for them. */
  async sql<Row extends Record<string, unknown>>(text: string, ...values: unknown[]): Promise<Row[]> {
    return (await this.test.database.requests.query<Row>({ text, values })).rows;
  }

  async count(table: string, where = 'true', ...values: unknown[]): Promise<number> {
    const [row] = await this.sql<{ n: number }>(
      `SELECT count(*)::int AS n FROM relayops.${table} WHERE ${where}`,
      ...values,
    );
    return row!.n;
  }

  /** Unexpected errors of background work, by part, over all processes. */
  async backgroundErrors(): Promise<Record<string, number>> {
    const errors: Record<string, number> = {};
    for (const { runtime } of this.#processes)
      for (const { labels, value } of (await runtime.metrics.errors.get()).values)
        errors[String(labels.part)] = (errors[String(labels.part)] ?? 0) + value;
    return errors;
  }

  /**
   * Stops everything and drops the database, which fails when a connection was left.
   * @throws Error when background work had an error that the test did not name
   */
  async close(expectedErrors: readonly string[] = []): Promise<void> {
    for (const process of this.#processes) await process.stop();
    await this.simulator.close();
    const errors = await this.backgroundErrors();
    await this.test.close();
    const unexpected = Object.entries(errors).filter(([part]) => !expectedErrors.includes(part));
    if (unexpected.length > 0) throw new Error(`background errors:\n${this.#log.join('\n')}`);
  }
}

async function launch(test: TestDatabase, config: Partial<Config>, log: string[]): Promise<RelayProcess> {
  const whole = loadConfig({}, { ...QUICK, 'database.url': test.url, ...config });
  return startProcess(whole, loggerInto(log, whole['log.level']));
}

/** The same lines that a process writes, kept for the failure that they explain. */
function loggerInto(log: string[], level: string): Logger {
  const options = { level, base: null, serializers: { err: (error: unknown) => describeError(error) } };
  return pino(options, { write: (line: string) => void log.push(line.trim()) });
}

async function newTenant(
  test: TestDatabase,
  url: string,
  scopes: readonly Scope[] = SCOPES,
): Promise<Tenant> {
  const db = test.database.requests;
  const tenantId = await createTenant(db, { name: 'Test' });
  const { key } = await createApiKey(db, tenantId, { name: 'test', scopes, actor: 'test' });
  return { tenantId, api: new RelayClient(url, key) };
}
