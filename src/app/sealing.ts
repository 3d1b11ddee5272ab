import { type Config, ConfigError, environmentName } from '../config/index.ts';
import {
  countEndpointRows,
  type ResealResult,
  requireSealingKey,
  resealAll,
  type SealingState,
  sealingState,
} from '../endpoints/index.ts';
import type { Database } from '../platform/db/database.ts';
import { openSmallDatabase } from './accounts.ts';
import { secretBoxOf } from './sealing-keys.ts';

/** Refuses to go on with a key that this database was not sealed with. The database must be migrated. @throws ConfigError */
export async function requireKey(config: Config): Promise<void> {
  const database = openSmallDatabase(config, 'sealing-key');
  try {
    refuseForeign(await requireSealingKey(database.requests, secretBoxOf(config)), config);
  } finally {
    await database.close();
  }
}

/** For `doctor`, on a database that may have no schema yet. Changes nothing. */
export async function knownSealingState(database: Database, config: Config): Promise<SealingState> {
  const { rows } = await database.requests.query<{ found: string | null }>(
    "SELECT to_regclass('relayops.sealing_canary')::text AS found",
  );
  return rows[0]?.found == null ? { state: 'absent' } : sealingState(database.requests, secretBoxOf(config));
}

/** @param onProgress endpoints looked at, of how many @throws ConfigError when the database is sealed with a key that is not configured */
export async function reseal(
  config: Config,
  onProgress: (done: number, total: number) => void,
): Promise<ResealResult> {
  const database = openSmallDatabase(config, 'reseal');
  try {
    const total = await countEndpointRows(database.requests);
    const result = await resealAll(database, secretBoxOf(config), (done) => onProgress(done, total));
    if ('state' in result) refuseForeign(result, config);
    return result as ResealResult;
  } finally {
    await database.close();
  }
}

export const FOREIGN_KEY_REMEDY =
  'Set secrets.key to the key with that ID; or, while changing keys, list that key in secrets.previousKeys and run `relayops secrets reseal`.';

/** What is wrong with the configured key, behind its name. */
export function foreignKey({ keyId }: { readonly keyId: string }, config: Config): string {
  return `has the ID ${secretBoxOf(config).keyId}, but this database is sealed with another key (its ID: ${keyId})`;
}

function refuseForeign(state: SealingState, config: Config): void {
  if (state.state !== 'foreign') return;
  const key = 'secrets.key';
  const reason = `${foreignKey(state, config)}. ${FOREIGN_KEY_REMEDY}`;
  throw new ConfigError([{ key, environment: environmentName(key), reason }]);
}
