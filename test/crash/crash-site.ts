import { rm } from 'node:fs/promises';
import pg from 'pg';
import { projectFile } from '../../src/app/paths.ts';
import type { Config } from '../../src/config/index.ts';
import { EmbeddedPostgres, freePort, temporaryDataDir } from '../../src/platform/db/embedded.ts';
import { migrate } from '../../src/platform/db/migrate.ts';
import { type SimulatedReceiver, type Simulator, startSimulator } from '../../src/simulator/index.ts';
import { createApiKey, createTenant, SCOPES } from '../../src/tenants/index.ts';
import { TEST_SECRETS } from '../support/relay.ts';
import { RelayClient } from '../support/relay-client.ts';
import { until } from '../support/until.ts';
import { Load } from './load.ts';
import { RelayChild } from './relay-child.ts';

const LEASE_MS = 3_000;
const SETTLE_LIMIT_MS = 60_000;
const LEDGER_PAGE = 1_000_000;

/** Facts about one run, as the database and the receiver hold them. */
export interface Account {
  readonly events: number;
  readonly deliveriesByState: Readonly<Record<string, number>>;
  readonly attemptsByOutcome: Readonly<Record<string, number>>;
  /** Deliveries whose attempts are not numbered 1, 2, 3 … */
  readonly withGaps: number;
  /** Deliveries whose last attempt is not a success, or with a success that is not the last. */
  readonly notEndedBySuccess: number;
  readonly openWork: number;
  readonly lateResults: number;
  /** Accepted events that the receiver did not answer 2xx, or got with other bytes. */
  readonly lost: readonly string[];
  /** Keys whose events are stored though they were refused by a code that says that they are not. */
  readonly storedThoughRefused: readonly string[];
  /** Keys with more than one event. */
  readonly storedTwice: number;
  /** Requests for a delivery that had been answered 2xx before. */
  readonly duplicates: number;
  /** Deliveries of which the receiver got more requests than attempts are recorded. */
  readonly unrecordedRequests: number;
}

/** A durable PostgreSQL, a receiver in this process, and relays in processes that may be killed, always at one address. */
export class CrashSite {
  readonly server: EmbeddedPostgres;
  readonly simulator: Simulator;
  readonly receiver: SimulatedReceiver;
  readonly url: string;
  readonly apiKey: string;
  readonly #dataDir: string;
  readonly #children = new Set<RelayChild>();

  private constructor(
    server: EmbeddedPostgres,
    dataDir: string,
    simulator: Simulator,
    port: number,
    apiKey: string,
  ) {
    this.server = server;
    this.#dataDir = dataDir;
    this.simulator = simulator;
    this.receiver = simulator.receiver('crash');
    this.url = `http://127.0.0.1:${port}`;
    this.apiKey = apiKey;
  }

  static async open(): Promise<CrashSite> {
    const dataDir = temporaryDataDir('crash');
    const server = await EmbeddedPostgres.start({ dataDir });
    await migrate(server.url, projectFile('migrations'));
    const client = new pg.Client({ connectionString: server.url });
    await client.connect();
    const { rows } = await client.query<{ fsync: string }>('SHOW fsync');
    if (rows[0]?.fsync !== 'on') throw new Error('this server would lose data in a crash');
    const tenantId = await createTenant(client, { name: 'Crash' });
    const { key } = await createApiKey(client, tenantId, { name: 'crash', scopes: SCOPES, actor: 'test' });
    await client.end();
    const simulator = await startSimulator({ keep: 0 });
    return new CrashSite(server, dataDir, simulator, await freePort(), key);
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

  load(name: string, senders: number, persistent: boolean): Load {
    return new Load({ url: this.url, apiKey: this.apiKey, name, senders, persistent });
  }

  async sql<Row extends pg.QueryResultRow>(text: string, ...values: unknown[]): Promise<Row[]> {
    const client = new pg.Client({ connectionString: this.server.url, application_name: 'crash-test' });
    await client.connect();
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

  /** Compares what the clients were told with what is stored and with what the receiver got. */
  async account(loads: readonly Load[]): Promise<Account> {
    const stored = await this.sql<{
      key: string;
      event_id: string;
      delivery_id: string | null;
      attempts: number;
    }>(`
      SELECT e.idempotency_key AS key, e.event_id, d.delivery_id,
        (SELECT count(*)::int FROM relayops.delivery_attempts a
         WHERE a.event_id = d.event_id AND a.delivery_id = d.delivery_id) AS attempts
      FROM relayops.events e LEFT JOIN relayops.deliveries d USING (tenant_id, event_id)`);
    const byEvent = new Map(stored.map((row) => [row.event_id, row]));
    const keys = new Set(stored.map((row) => row.key));
    const ledger = new Map(
      this.receiver.deliveries({ limit: LEDGER_PAGE }).map((row) => [row[0], row] as const),
    );
    const isDelivered = (key: string, eventId: string): boolean => {
      const [, , okAnswers = 0, sha256 = ''] = ledger.get(byEvent.get(eventId)?.delivery_id ?? '') ?? [];
      return okAnswers > 0 && sha256 === Load.sha256Of(key);
    };
    return {
      events: stored.length,
      deliveriesByState: await this.#tally('deliveries', 'state'),
      attemptsByOutcome: await this.#tally('delivery_attempts', 'outcome'),
      withGaps: await this.number(`
        SELECT count(*)::int AS n FROM (
          SELECT 1 FROM relayops.delivery_attempts GROUP BY delivery_id
          HAVING min(attempt_number) <> 1 OR max(attempt_number) <> count(*)) g`),
      notEndedBySuccess: await this.number(`
        SELECT count(*)::int AS n FROM (
          SELECT 1 FROM relayops.delivery_attempts GROUP BY delivery_id
          HAVING count(*) FILTER (WHERE outcome = 'success') <> 1
            OR max(attempt_number) FILTER (WHERE outcome = 'success') <> max(attempt_number)) g`),
      openWork: await this.number('SELECT count(*)::int AS n FROM relayops.delivery_work'),
      lateResults: await this.number('SELECT count(*)::int AS n FROM relayops.late_results'),
      lost: loads.flatMap(({ accepted }) =>
        [...accepted].filter(([key, eventId]) => !isDelivered(key, eventId)).map(([key]) => key),
      ),
      storedThoughRefused: loads.flatMap(({ refused }) =>
        [...refused]
          .filter(([, refusal]) => refusal !== 'no answer' && refusal.code !== 'ACCEPTANCE_UNCERTAIN')
          .filter(([key]) => keys.has(key))
          .map(([key]) => key),
      ),
      storedTwice: stored.length - keys.size,
      duplicates: this.receiver.summary().duplicatesAfterSuccess,
      unrecordedRequests: stored.filter(
        ({ delivery_id, attempts }) => (ledger.get(delivery_id ?? '')?.[1] ?? 0) > attempts,
      ).length,
    };
  }

  async #tally(table: string, column: string): Promise<Record<string, number>> {
    const rows = await this.sql<{ name: string; n: number }>(
      `SELECT ${column} AS name, count(*)::int AS n FROM relayops.${table} GROUP BY 1`,
    );
    return Object.fromEntries(rows.map(({ name, n }) => [name, n]));
  }
}

/** Progress for whoever watches: these tests take minutes. */
export function say(text: string): void {
  process.stdout.write(`  ${text}\n`);
}
