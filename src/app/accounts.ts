import type { Config } from '../config/index.ts';
import { Database } from '../platform/db/database.ts';
import { migrate } from '../platform/db/migrate.ts';
import { createApiKey, createBootstrapToken, createTenant, SCOPES } from '../tenants/index.ts';
import { projectFile } from './paths.ts';
import type { Runtime } from './runtime.ts';

/** A tenant with a key for everything, for demonstrations. @param actor what "created by" says */
export async function createTenantWithKey(
  { database }: Pick<Runtime, 'database'>,
  name: string,
  actor: string,
): Promise<string> {
  const tenantId = await createTenant(database.requests, { name });
  const { key } = await createApiKey(database.requests, tenantId, {
    name: actor,
    scopes: [...SCOPES],
    actor,
  });
  return key;
}

/** A token that lets one tenant sign up, made directly in the database. Shown once. */
export async function makeBootstrapToken(
  config: Config,
  order: { readonly hours: number; readonly note: string },
): Promise<string> {
  await migrate(config['database.url'], projectFile('migrations'));
  const database = openSmallDatabase(config, 'bootstrap-token');
  try {
    return await createBootstrapToken(database.requests, { ttlS: order.hours * 3600, note: order.note });
  } finally {
    await database.close();
  }
}

/** A few connections for one command. Errors of idle ones are left to the statements that follow. */
export function openSmallDatabase(config: Config, command: string): Database {
  return new Database({
    url: config['database.url'],
    poolSize: 1,
    acceptancePoolSize: 2,
    deliveryPoolSize: 3,
    connectTimeoutMs: config['database.connectTimeoutMs'],
    statementTimeoutMs: config['database.statementTimeoutMs'],
    applicationName: `relayops:${command}`,
    onIdleError: () => undefined,
  });
}
