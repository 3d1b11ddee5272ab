import type { Queryable } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';

const FIND = prepared('SELECT key_id, sealed FROM relayops.sealing_canary');
export async function findCanary(
  db: Queryable,
): Promise<{ readonly key_id: string; readonly sealed: Buffer } | undefined> {
  return (await db.query<{ key_id: string; sealed: Buffer }>(FIND([]))).rows[0];
}

const INSERT = prepared(
  'INSERT INTO relayops.sealing_canary (key_id, sealed) VALUES ($1, $2) ON CONFLICT DO NOTHING',
);
/** Does nothing when another process was faster. */
export async function insertCanary(db: Queryable, keyId: string, sealed: Buffer): Promise<void> {
  await db.query(INSERT([keyId, sealed]));
}

const UPDATE = prepared('UPDATE relayops.sealing_canary SET key_id = $1, sealed = $2, sealed_at = now()');
export async function updateCanary(db: Queryable, keyId: string, sealed: Buffer): Promise<void> {
  await db.query(UPDATE([keyId, sealed]));
}

const NEWEST = prepared(`
  SELECT endpoint_id, ciphertext FROM relayops.endpoint_secrets ORDER BY secret_id DESC LIMIT 20`);
/** A sample of what is sealed. Index: primary key, backwards. */
export async function findNewestSecrets(
  db: Queryable,
): Promise<{ readonly endpoint_id: string; readonly ciphertext: Buffer }[]> {
  return (await db.query<{ endpoint_id: string; ciphertext: Buffer }>(NEWEST([]))).rows;
}
