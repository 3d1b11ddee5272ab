import type { Queryable, Transaction } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';

/** A signing secret without the secret. */
export interface SecretRow {
  readonly secret_id: string;
  readonly created_at: Date;
  readonly expires_at: Date | null;
}

const INSERT = prepared(`
  INSERT INTO relayops.endpoint_secrets (secret_id, endpoint_id, ciphertext, created_at)
  VALUES ($1, $2, $3, clock_timestamp())`);
/**
 * For an endpoint that this transaction has made or locked. The time is the statement's: of two rotations that wait for each other
 * the later one may have begun earlier, and the newest secret must have the newest time.
 */
export async function insertSecret(
  tx: Transaction,
  endpointId: EndpointId,
  secretId: string,
  ciphertext: Buffer,
): Promise<void> {
  await tx.query(INSERT([secretId, endpointId, ciphertext]));
}

const EXPIRE = prepared(`
  WITH ended AS (DELETE FROM relayops.endpoint_secrets WHERE endpoint_id = $1 AND expires_at <= now())
  UPDATE relayops.endpoint_secrets SET expires_at = least(expires_at, now() + make_interval(secs => $2))
  WHERE endpoint_id = $1 AND (expires_at IS NULL OR expires_at > now())
  RETURNING expires_at > now() AS in_force`);
/**
 * Ends every secret of an endpoint that the transaction has locked after the overlap, never later than it would have ended anyway,
 * and removes those that had ended before. Index: endpoint_secrets_endpoint.
 * @returns how many go on signing
 */
export async function expireSecrets(
  tx: Transaction,
  endpointId: EndpointId,
  overlapS: number,
): Promise<number> {
  const { rows } = await tx.query<{ in_force: boolean }>(EXPIRE([endpointId, overlapS]));
  return rows.filter((row) => row.in_force).length;
}

const LIST = prepared(`
  SELECT s.secret_id, s.created_at, s.expires_at
  FROM relayops.endpoint_secrets s JOIN relayops.webhook_endpoints e USING (endpoint_id)
  WHERE e.tenant_id = $1 AND s.endpoint_id = $2 AND e.deleted_at IS NULL
  ORDER BY s.created_at DESC`);
/** Newest first; a rotation bounds how many there are. Index: endpoint_secrets_endpoint, backwards. */
export async function listSecrets(
  db: Queryable,
  tenantId: TenantId,
  endpointId: EndpointId,
): Promise<SecretRow[]> {
  return (await db.query<SecretRow>(LIST([tenantId, endpointId]))).rows;
}

const CURRENT = prepared(`
  SELECT s.secret_id, s.ciphertext, s.created_at, s.expires_at
  FROM relayops.endpoint_secrets s JOIN relayops.webhook_endpoints e USING (endpoint_id)
  WHERE e.tenant_id = $1 AND s.endpoint_id = $2 AND e.deleted_at IS NULL
  ORDER BY s.created_at DESC LIMIT 1`);
/** The newest one, sealed. Index: endpoint_secrets_endpoint, backwards. */
export async function findCurrentSecret(
  db: Queryable,
  tenantId: TenantId,
  endpointId: EndpointId,
): Promise<(SecretRow & { readonly ciphertext: Buffer }) | undefined> {
  const { rows } = await db.query<SecretRow & { ciphertext: Buffer }>(CURRENT([tenantId, endpointId]));
  return rows[0];
}

const DELETE_ALL = prepared('DELETE FROM relayops.endpoint_secrets WHERE endpoint_id = $1');
/** Of an endpoint that the transaction has locked. Index: endpoint_secrets_endpoint. */
export async function deleteSecrets(tx: Transaction, endpointId: EndpointId): Promise<void> {
  await tx.query(DELETE_ALL([endpointId]));
}
