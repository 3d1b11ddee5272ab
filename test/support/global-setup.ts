import { rm } from 'node:fs/promises';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { EmbeddedPostgres, temporaryDataDir } from '../../src/platform/db/embedded.ts';
import { migrate } from '../../src/platform/db/migrate.ts';
import { startSharedServices } from './shared-services.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Server on which each test file clones a database from TEMPLATE. */
    postgresUrl: string;
  }
}

export const TEMPLATE = 'relayops_template';

/** What the tests of a run share: PostgreSQL, RabbitMQ and Redis, each a real server, brought up side by side (about 6 s). */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const [postgres, services] = await Promise.allSettled([startPostgres(), startSharedServices(process.env)]);
  const stop = async (): Promise<void> => {
    if (services.status === 'fulfilled') await services.value.stop();
    if (postgres.status === 'fulfilled') await postgres.value.stop();
  };
  const failed = [postgres, services].find((one) => one.status === 'rejected');
  if (failed || postgres.status === 'rejected' || services.status === 'rejected') {
    await stop();
    throw failed?.reason;
  }
  project.provide('postgresUrl', postgres.value.url);
  project.provide('rabbitmqUrl', services.value.rabbitmqUrl);
  project.provide('redisUrl', services.value.redisUrl);
  return stop;
}

interface SharedPostgres {
  readonly url: string;
  stop(): Promise<void>;
}

/** A server with a migrated template database. Durability is off: no test here crashes it. */
async function startPostgres(): Promise<SharedPostgres> {
  const dataDir = temporaryDataDir('test');
  const server = await EmbeddedPostgres.start({
    dataDir,
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '300' },
  });
  const stop = async (): Promise<void> => {
    await server.stopServer('immediate');
    await rm(dataDir, { recursive: true, force: true });
  };
  try {
    await makeTemplate(server.url);
  } catch (error) {
    await stop();
    throw error;
  }
  return { url: server.url, stop };
}

async function makeTemplate(serverUrl: string): Promise<void> {
  const admin = new pg.Client({ connectionString: serverUrl });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${TEMPLATE}`);
  await admin.end();
  const templateUrl = serverUrl.replace(/\/postgres$/, `/${TEMPLATE}`);
  await migrate(templateUrl, new URL('../../migrations', import.meta.url).pathname);
  const client = new pg.Client({ connectionString: templateUrl });
  await client.connect();
  await client.query(
    "SELECT relayops.ensure_partitions(now() - interval '60 days', now() + interval '21 days')",
  );
  await client.end();
}
