import { rm } from 'node:fs/promises';
import path from 'node:path';
import { createTenantWithKey, openSmallDatabase } from '../app/accounts.ts';
import { type Installation, openInstallation } from '../app/installation.ts';
import { projectFile } from '../app/paths.ts';
import { startProcess } from '../app/process.ts';
import { type RoleProcess, startRoleProcess } from '../app/role-process.ts';
import type { Config } from '../config/index.ts';
import { temporaryDataDir } from '../platform/db/embedded.ts';
import { migrate } from '../platform/db/migrate.ts';
import { ensureServices } from '../platform/services/packages.ts';
import { LocalRabbitMq } from '../platform/services/rabbitmq.ts';
import { LocalRedis } from '../platform/services/redis.ts';
import { createLogger } from '../platform/telemetry/logger.ts';

/** A whole RelayOps of its own, thrown away afterwards. */
export interface DemoSystem {
  readonly url: string;
  readonly apiKey: string;
  /** Attempts recorded so far. */
  attempts(): Promise<number>;
  close(): Promise<void>;
}

const WORKERS = 3;
const APIS = 2;
/** More failures in a row than the demo has: the deliveries of its broken receiver are to die, not to be held back. */
const NO_BREAKER = 10_000;

/** Embedded PostgreSQL, and one process that does everything: this one. @param receiverPort what deliveries may be sent to on loopback */
export async function openEmbeddedSystem(receiverPort: number): Promise<DemoSystem> {
  const { installation, remove } = await openTemporaryInstallation(receiverPort, {});
  const cleanUp = async (): Promise<void> => {
    await installation.close();
    await remove();
  };
  try {
    const relay = await startProcess(installation.config, createLogger('error', { service: 'relayops' }));
    return {
      url: relay.url,
      apiKey: await createTenantWithKey(relay.runtime, 'Demo', 'demo'),
      attempts: () => countAttempts(installation.config),
      close: async () => {
        await relay.stop();
        await cleanUp();
      },
    };
  } catch (error) {
    await cleanUp();
    throw error;
  }
}

/**
 * Embedded PostgreSQL, RabbitMQ and Redis from this machine's packages, two `api` and three `worker` processes.
 * @throws ServiceUnavailable when RabbitMQ or Redis cannot be had
 */
export async function openFleet(receiverPort: number): Promise<DemoSystem> {
  await ensureServices(['rabbitmq', 'redis']);
  const [rabbitmq, redis] = await Promise.all([LocalRabbitMq.start(), LocalRedis.start()]);
  const processes: RoleProcess[] = [];
  const { installation, remove } = await openTemporaryInstallation(receiverPort, {
    transport: 'rabbitmq',
    'rabbitmq.url': rabbitmq.url,
    coordination: 'redis',
    'redis.url': redis.url,
  });
  const close = async (): Promise<void> => {
    await Promise.all(processes.map((one) => one.stop()));
    await Promise.all([rabbitmq.dispose(), redis.dispose()]);
    await installation.close();
    await remove();
  };
  try {
    const { config } = installation;
    await migrate(config['database.url'], projectFile('migrations'));
    const roles = [...Array<'api'>(APIS).fill('api'), ...Array<'worker'>(WORKERS).fill('worker')];
    const started = await Promise.allSettled(roles.map((role) => startRoleProcess({ ...config, role })));
    for (const one of started) if (one.status === 'fulfilled') processes.push(one.value);
    for (const one of started) if (one.status === 'rejected') throw one.reason;
    const database = openSmallDatabase(config, 'demo');
    const apiKey = await createTenantWithKey({ database }, 'Demo', 'demo');
    await database.close();
    return { url: processes[0]!.url, apiKey, attempts: () => countAttempts(config), close };
  } catch (error) {
    await close();
    throw error;
  }
}

async function openTemporaryInstallation(
  receiverPort: number,
  overrides: Partial<Config>,
): Promise<{ installation: Installation; remove: () => Promise<void> }> {
  const home = path.join(temporaryDataDir('demo'));
  const installation = await openInstallation(
    {},
    {
      'database.dataDir': path.join(home, 'postgres'),
      'http.port': 0,
      'http.adminPort': 0,
      'log.level': 'error',
      'delivery.allowAddresses': [`127.0.0.1/32:${receiverPort}`],
      'health.failuresToOpen': NO_BREAKER,
      ...overrides,
    },
  );
  return { installation, remove: () => rm(home, { recursive: true, force: true }) };
}

async function countAttempts(config: Config): Promise<number> {
  const database = openSmallDatabase(config, 'demo');
  try {
    const { rows } = await database.requests.query<{ n: number }>(
      'SELECT count(*)::int AS n FROM relayops.delivery_attempts',
    );
    return rows[0]!.n;
  } finally {
    await database.close();
  }
}
