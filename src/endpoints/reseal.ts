import type { Database, Transaction } from '../platform/db/database.ts';
import type { EndpointId } from '../shared/ids.ts';
import { requireSealingKey, resealCanary, type SealingState } from './canary.ts';
import {
  type SealedEndpointRow,
  type SealedSecretRow,
  lockEndpointsAfter,
  lockPlainEndpoints,
  lockSecretsOf,
  updateCiphertexts,
  updateSealedHeaders,
} from './reseal.sql.ts';
import { hasPlainHeaders, placeOf, sealHeaders } from './sealed-headers.ts';
import type { SecretBox } from './secret-box.ts';

export { countEndpointRows } from './reseal.sql.ts';

/** Signing secrets and header values. */
interface Counts {
  resealed: number;
  current: number;
  /** Sealed with a key that is not configured; left as they are. */
  unopenable: number;
}

export interface ResealResult extends Readonly<Counts> {
  /** Endpoints that have some; the first 20. */
  readonly unopenableEndpoints: readonly EndpointId[];
}

const BATCH = 100;
const MAX_NAMED = 20;
const FIRST = '00000000-0000-0000-0000-000000000000' as EndpointId;

/**
 * Seals everything with the current key that is sealed with another one, in the form before key IDs, or not at all. Batches are
 * transactions of their own: what is done stays done when it is interrupted. The canary comes last.
 * @param onProgress told after each batch how many endpoints have been looked at
 * @returns the state of the canary when its key is not configured; then nothing is done
 */
export async function resealAll(
  database: Database,
  box: SecretBox,
  onProgress: (endpoints: number) => void,
): Promise<ResealResult | Extract<SealingState, { keyId: string }>> {
  const state = await requireSealingKey(database.requests, box);
  if (state.state === 'foreign') return state;
  const counts: Counts = { resealed: 0, current: 0, unopenable: 0 };
  const unopenable: EndpointId[] = [];
  let after = FIRST;
  let done = 0;
  for (;;) {
    const { rows, result } = await database.transaction(async (tx) => {
      const locked = await lockEndpointsAfter(tx, after, BATCH);
      return { rows: locked, result: await resealEndpoints(tx, box, locked) };
    });
    counts.resealed += result.resealed;
    counts.current += result.current;
    counts.unopenable += result.unopenable;
    unopenable.push(...result.unopenableEndpoints.slice(0, MAX_NAMED - unopenable.length));
    onProgress((done += rows.length));
    if (rows.length < BATCH) break;
    after = rows.at(-1)!.endpoint_id;
  }
  if (state.state === 'previous') await resealCanary(database.requests, box);
  return { ...counts, unopenableEndpoints: unopenable };
}

/** Seals one batch of headers that the version before has written. @returns how many endpoints it had */
export async function sealPlainHeaders(database: Database, box: SecretBox, limit: number): Promise<number> {
  return database.transaction(async (tx) => {
    const rows = await lockPlainEndpoints(tx, limit);
    await resealEndpoints(tx, box, rows);
    return rows.length;
  });
}

/**
 * Seals secrets and headers of locked endpoints with the current key. Both together: a process of the version before, which does not know
 * sealed headers, cannot open these secrets either, so it lets the deliveries wait for another process instead of sending them without their headers.
 */
export async function resealEndpoints(
  tx: Transaction,
  box: SecretBox,
  endpoints: readonly SealedEndpointRow[],
): Promise<ResealResult> {
  const counts: Counts = { resealed: 0, current: 0, unopenable: 0 };
  const unopenable = new Set<EndpointId>();
  if (endpoints.length === 0) return { ...counts, unopenableEndpoints: [] };
  const reseal = (sealed: Buffer, place: string, endpointId: EndpointId): Buffer => {
    const again = resealed(box, sealed, place);
    if (again === 'unopenable') unopenable.add(endpointId);
    counts[typeof again === 'string' ? again : 'resealed'] += 1;
    return typeof again === 'string' ? sealed : again;
  };
  const headers = endpoints.map((row) => {
    if (!hasPlainHeaders(row)) return withResealedHeaders(row, reseal);
    counts.resealed += Object.keys(row.headers).length;
    return { ...row, sealed_headers: sealHeaders(box, row.endpoint_id, row.headers) };
  });
  const changedRows = headers.filter(
    (row, i) =>
      hasPlainHeaders(row) ||
      Object.entries(row.sealed_headers).some(
        ([name, sealed]) => endpoints[i]!.sealed_headers[name] !== sealed,
      ),
  );
  if (changedRows.length > 0) await updateSealedHeaders(tx, changedRows);
  const secrets = await lockSecretsOf(
    tx,
    endpoints.map((row) => row.endpoint_id),
  );
  const changedSecrets: SealedSecretRow[] = [];
  for (const row of secrets) {
    const ciphertext = reseal(row.ciphertext, row.endpoint_id, row.endpoint_id);
    if (ciphertext !== row.ciphertext) changedSecrets.push({ ...row, ciphertext });
  }
  if (changedSecrets.length > 0) await updateCiphertexts(tx, changedSecrets);
  return { ...counts, unopenableEndpoints: [...unopenable] };
}

function withResealedHeaders(
  row: SealedEndpointRow,
  reseal: (sealed: Buffer, place: string, endpointId: EndpointId) => Buffer,
): SealedEndpointRow {
  const entries = Object.entries(row.sealed_headers).map(([name, sealed]) => [
    name,
    reseal(Buffer.from(sealed, 'base64'), placeOf(row.endpoint_id, name), row.endpoint_id).toString('base64'),
  ]);
  return { ...row, sealed_headers: Object.fromEntries(entries) as Record<string, string> };
}

function resealed(box: SecretBox, sealed: Buffer, place: string): Buffer | 'current' | 'unopenable' {
  if (box.isCurrent(sealed)) return 'current';
  try {
    return box.seal(box.open(sealed, place), place);
  } catch {
    return 'unopenable';
  }
}
