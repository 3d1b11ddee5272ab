import type { Queryable } from '../platform/db/database.ts';
import { findCanary, findNewestSecrets, insertCanary, updateCanary } from './canary.sql.ts';
import { type SecretBox, keyIdOf } from './secret-box.ts';

const PLACE = 'canary';
const TEXT = Buffer.from('relayops');

/** Which key the database is sealed with, seen from the configured keys. */
export type SealingState =
  | { readonly state: 'absent' }
  | { readonly state: 'current' | 'previous' | 'foreign'; readonly keyId: string };

/**
 * Reads the canary: a known text, sealed with the key of this installation. A database from before canaries is judged by its newest
 * secrets. Changes nothing.
 */
export async function sealingState(db: Queryable, box: SecretBox): Promise<SealingState> {
  const canary = await findCanary(db);
  if (canary) {
    if (!opens(box, canary.sealed, PLACE)) return { state: 'foreign', keyId: canary.key_id };
    return { state: box.isCurrent(canary.sealed) ? 'current' : 'previous', keyId: canary.key_id };
  }
  const sample = await findNewestSecrets(db);
  if (sample.length === 0 || sample.some((one) => opens(box, one.ciphertext, one.endpoint_id)))
    return { state: 'absent' };
  return { state: 'foreign', keyId: keyIdOf(sample[0]!.ciphertext) };
}

/** As `sealingState`, and writes the canary when there is none. Of several processes that start together one writes; all judge that one. */
export async function requireSealingKey(db: Queryable, box: SecretBox): Promise<SealingState> {
  const found = await sealingState(db, box);
  if (found.state !== 'absent') return found;
  await insertCanary(db, box.keyId, box.seal(TEXT, PLACE));
  return sealingState(db, box);
}

export async function resealCanary(db: Queryable, box: SecretBox): Promise<void> {
  await updateCanary(db, box.keyId, box.seal(TEXT, PLACE));
}

function opens(box: SecretBox, sealed: Buffer, place: string): boolean {
  try {
    box.open(sealed, place);
    return true;
  } catch {
    return false;
  }
}
