import { rm } from 'node:fs/promises';
import pg from 'pg';
import type { TestProject } from 'vitest/node';
import { EmbeddedPostgres, temporaryDataDir } from '../../src/platform/db/embedded.ts';
import { migrate } from '../../src/platform/db/migrate.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Server on which each test file clones a database from TEMPLATE. */
    postgresUrl: string;
  }
}

export const TEMPLATE = 'relayops_template';

/** One embedded PostgreSQL for the run, with a migrated template database. Durability is off: no test here crashes the server. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const dataDir = temporaryDataDir('test');
  const server = await EmbeddedPostgres.start({
    dataDir,
    settings: { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '300' },
  });
  const admin = new pg.Client({ connectionString: server.url });
  await admin.connect();
  await admin.query(`CREATE DATABASE ${TEMPLATE}`);
  await admin.end();
  const templateUrl = server.url.replace(/\/postgres$/, `/${TEMPLATE}`);
  await migrate(templateUrl, new URL('../../migrations', import.meta.url).pathname);
  const client = new pg.Client({ connectionString: templateUrl });
  await client.connect();
  await client.query(
    "SELECT relayops.ensure_partitions(now() - interval '60 days', now() + interval '21 days')",
  );
  await client.end();
  project.provide('postgresUrl', server.url);
  return async () => {
    await server.stopServer('immediate');
    await rm(dataDir, { recursive: true, force: true });
  };
}
