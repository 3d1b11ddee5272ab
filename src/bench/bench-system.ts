import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Api } from '../app/api.ts';
import { createApi } from '../app/api.ts';
import { projectFile } from '../app/paths.ts';
import { startRoleProcess } from '../app/role-process.ts';
import { createRuntime, type Runtime } from '../app/runtime.ts';
import { type Config, loadConfig } from '../config/index.ts';
import { preparePartitions } from '../delivery/index.ts';
import { EmbeddedPostgres, temporaryDataDir } from '../platform/db/embedded.ts';
import { migrate } from '../platform/db/migrate.ts';
import { ensureServices } from '../platform/services/packages.ts';
import { LocalRabbitMq } from '../platform/services/rabbitmq.ts';
import { LocalRedis } from '../platform/services/redis.ts';
import { createLogger } from '../platform/telemetry/logger.ts';
import { sleep } from '../shared/abort.ts';
import type { TenantId } from '../shared/ids.ts';
import { createApiKey, createTenant, SCOPES } from '../tenants/index.ts';
import type { BenchContext } from './scenario.ts';

const READY_LIMIT_MS = 30_000;
const LOOK_EVERY_MS = 5;
const SECRETS_KEY = Buffer.alloc(32, 7).toString('base64');

/**
 * What a benchmark runs on: durable embedded PostgreSQL, RelayOps in this process, the receiver in a process of its own. The log
 * is at `warn`: a line an attempt is a choice of the operator.
 */
export interface BenchSystem {
  readonly runtime: Runtime;
  readonly tenantId: TenantId;
  readonly apiKey: string;
  readonly receiverUrl: string;
  /** Runs `work` beside a delivery worker of its own: a fresh runtime on the same database, stopped afterwards. */
  withWorker<T>(work: (worker: Runtime) => Promise<T>): Promise<T>;
  /** `count` worker processes of their own, ready to deliver. */
  startWorkers(count: number): Promise<WorkerProcesses>;
  /** Publishes outbox rows from now on, when the transport has any; `startApi` does so as well. */
  startPublisher(): Promise<void>;
  /** Starts the API on a free port. */
  startApi(): Promise<string>;
  /** Per receiver: what it counted. */
  receiverTotals(): Promise<ReceiverTotals>;
  resetReceivers(): Promise<void>;
  close(): Promise<void>;
}

/** Worker processes that can be held still, so that the clock starts when all is prepared. */
export interface WorkerProcesses {
  hold(): void;
  letGo(): void;
  stop(): Promise<void>;
}

export interface ReceiverTotals {
  readonly requests: number;
  /** Deliveries answered 2xx at least once. */
  readonly succeeded: number;
  readonly duplicatesAfterSuccess: number;
}

export async function openBenchSystem(
  { transport }: Pick<BenchContext, 'transport'>,
  overrides: Partial<Config> = {},
): Promise<BenchSystem> {
  const services = transport === 'rabbitmq' ? await openServices() : null;
  const dataDir = temporaryDataDir('bench');
  const postgres = await EmbeddedPostgres.start({
    dataDir,
    settings: {
      shared_buffers: '1GB',
      shared_preload_libraries: 'pg_stat_statements',
      'pg_stat_statements.track_planning': 'on',
    },
  });
  await migrate(postgres.url, projectFile('migrations'));
  const receiver = await startChild('../simulator/main', ['--keep', '0', '--no-verify']);
  const receiverUrl = receiver.ready['url'] as string;
  const config = loadConfig(
    {},
    {
      'database.url': postgres.url,
      'auth.jwtSecret': 'benchmark-benchmark-benchmark-benchmark',
      'secrets.key': SECRETS_KEY,
      'http.port': 0,
      'http.adminPort': 0,
      'delivery.allowAddresses': ['127.0.0.1/32'],
      ...services?.config,
      ...overrides,
    },
  );
  const runtime = createRuntime(config, createLogger('warn', { service: 'bench' }));
  await preparePartitions(runtime.database);
  await runtime.lifecycle.start();
  const { messaging } = runtime;
  const tenantId = await createTenant(runtime.database.requests, { name: 'bench' });
  const { key } = await createApiKey(runtime.database.requests, tenantId, {
    name: 'bench',
    scopes: [...SCOPES],
    actor: 'bench',
  });
  let api: Api | undefined;
  return {
    runtime,
    tenantId,
    apiKey: key,
    receiverUrl,
    startPublisher: async () => {
      if (messaging === null) return;
      await until(() => messaging.transport.state().publishing);
      messaging.publisher.start();
    },
    startWorkers: (count) => startWorkers(config, count),
    withWorker: async (work) => {
      const beside = createRuntime(config, createLogger('warn', { service: 'bench' }));
      await beside.lifecycle.start();
      beside.worker.start();
      await until(() => beside.messaging?.transport.state().consuming !== false);
      try {
        return await work(beside);
      } finally {
        const deadline = AbortSignal.timeout(10_000);
        await beside.worker.stop(deadline);
        await beside.lifecycle.stop(deadline);
      }
    },
    startApi: async () => {
      messaging?.publisher.start();
      api ??= await createApi(runtime);
      return api.server.listen({ host: '127.0.0.1', port: 0 });
    },
    receiverTotals: () => receiverTotals(receiverUrl),
    resetReceivers: () => resetReceivers(receiverUrl),
    close: async () => {
      const deadline = AbortSignal.timeout(10_000);
      await api?.stop(deadline);
      await messaging?.publisher.stop();
      await runtime.lifecycle.stop(deadline);
      await stopChild(receiver.process);
      await services?.close();
      await postgres.stopServer('immediate');
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

interface Services {
  readonly config: Partial<Config>;
  close(): Promise<void>;
}

/** RabbitMQ and Redis of this machine's packages, for this run alone. */
async function openServices(): Promise<Services> {
  await ensureServices(['rabbitmq', 'redis']);
  const [rabbitmq, redis] = await Promise.all([LocalRabbitMq.start(), LocalRedis.start()]);
  return {
    config: {
      transport: 'rabbitmq',
      'rabbitmq.url': rabbitmq.url,
      coordination: 'redis',
      'redis.url': redis.url,
    },
    close: async () => {
      await Promise.all([rabbitmq.dispose(), redis.dispose()]);
    },
  };
}

async function until(isSo: () => boolean): Promise<void> {
  const deadline = performance.now() + READY_LIMIT_MS;
  while (!isSo()) {
    if (performance.now() > deadline) throw new Error('the broker could not be reached');
    await sleep(LOOK_EVERY_MS);
  }
}

async function startWorkers(config: Config, count: number): Promise<WorkerProcesses> {
  const one = { ...config, role: 'worker', 'log.level': 'warn' } as const;
  const workers = await Promise.all(Array.from({ length: count }, () => startRoleProcess(one)));
  return {
    hold: () => workers.forEach((worker) => worker.signal('SIGSTOP')),
    letGo: () => workers.forEach((worker) => worker.signal('SIGCONT')),
    stop: async () => {
      await Promise.all(workers.map((worker) => worker.stop()));
    },
  };
}

export interface Child {
  readonly process: ChildProcess;
  /** The first line it wrote, a JSON object. */
  readonly ready: Record<string, unknown>;
}

/**
 * Starts a script of ours as a process of its own and waits for its first line.
 * @param script relative to this file, without its ending: `.ts` in a checkout, `.js` in the published package
 */
export async function startChild(script: string, args: readonly string[]): Promise<Child> {
  const file = fileURLToPath(new URL(script + path.extname(import.meta.filename), import.meta.url));
  const child = fork(file, [...args], { stdio: ['ignore', 'pipe', 'inherit', 'ipc'] });
  const line = await firstLine(child);
  return { process: child, ready: JSON.parse(line) as Record<string, unknown> };
}

export async function stopChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const gone = once(child, 'exit');
  child.kill('SIGTERM');
  await gone;
}

/** What comes after it is read and dropped, so that the child can go on writing. */
function firstLine(child: ChildProcess): Promise<string> {
  return new Promise((resolve, reject) => {
    let text = '';
    child.stdout?.setEncoding('utf8').on('data', (chunk: string) => {
      text += text.includes('\n') ? '' : chunk;
      const end = text.indexOf('\n');
      if (end >= 0) resolve(text.slice(0, end));
    });
    child.once('exit', (code) =>
      reject(new Error(`the child process ended before it was ready (exit code ${code})`)),
    );
  });
}

async function receiverTotals(url: string): Promise<ReceiverTotals> {
  const totals = { requests: 0, succeeded: 0, duplicatesAfterSuccess: 0 };
  for (const name of await receiverNames(url)) {
    const summary = (await (await fetch(`${url}/receivers/${name}/summary`)).json()) as {
      requests: number;
      succeededDeliveries: number;
      duplicatesAfterSuccess: number;
    };
    totals.requests += summary.requests;
    totals.succeeded += summary.succeededDeliveries;
    totals.duplicatesAfterSuccess += summary.duplicatesAfterSuccess;
  }
  return totals;
}

async function resetReceivers(url: string): Promise<void> {
  for (const name of await receiverNames(url)) await fetch(`${url}/receivers/${name}`, { method: 'DELETE' });
}

async function receiverNames(url: string): Promise<string[]> {
  const list = (await (await fetch(`${url}/receivers`)).json()) as
    { receivers?: { name: string }[] } | { name: string }[];
  return (Array.isArray(list) ? list : (list.receivers ?? [])).map((receiver) => receiver.name);
}
