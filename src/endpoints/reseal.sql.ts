import type { Queryable, Transaction } from '../platform/db/database.ts';
import { plainArray, prepared } from '../platform/db/sql.ts';
import type { EndpointId } from '../shared/ids.ts';
import type { SealedHeaders } from './sealed-headers.ts';

/** The columns of an endpoint that are sealed or are to be. */
export interface SealedEndpointRow {
  readonly endpoint_id: EndpointId;
  readonly headers: Readonly<Record<string, string>>;
  readonly sealed_headers: SealedHeaders;
}

const PAGE = prepared(`
  SELECT endpoint_id, headers, sealed_headers FROM relayops.webhook_endpoints WHERE endpoint_id > $1
  ORDER BY endpoint_id LIMIT $2 FOR NO KEY UPDATE`);
/** Endpoints of all tenants after an ID, locked until the transaction ends. Index: primary key. */
export async function lockEndpointsAfter(
  tx: Transaction,
  after: EndpointId,
  limit: number,
): Promise<SealedEndpointRow[]> {
  return (await tx.query<SealedEndpointRow>(PAGE([after, limit]))).rows;
}

const PLAIN = prepared(`
  SELECT endpoint_id, headers, sealed_headers FROM relayops.webhook_endpoints WHERE headers <> '{}'
  ORDER BY endpoint_id LIMIT $1 FOR NO KEY UPDATE SKIP LOCKED`);
/** Endpoints whose headers are not sealed yet, without those that somebody changes now. Index: webhook_endpoints_plain_headers. */
export async function lockPlainEndpoints(tx: Transaction, limit: number): Promise<SealedEndpointRow[]> {
  return (await tx.query<SealedEndpointRow>(PLAIN([limit]))).rows;
}

const COUNT = prepared('SELECT count(*)::int AS count FROM relayops.webhook_endpoints');
/** For a progress bar: reads the whole index. */
export async function countEndpointRows(db: Queryable): Promise<number> {
  return (await db.query<{ count: number }>(COUNT([]))).rows[0]!.count;
}

export interface SealedSecretRow {
  readonly secret_id: string;
  readonly endpoint_id: EndpointId;
  readonly ciphertext: Buffer;
}

const SECRETS = prepared(`
  SELECT secret_id, endpoint_id, ciphertext FROM relayops.endpoint_secrets WHERE endpoint_id = ANY($1::uuid[])
  FOR NO KEY UPDATE`);
/** Of endpoints that the transaction has locked. Index: endpoint_secrets_endpoint. */
export async function lockSecretsOf(
  tx: Transaction,
  endpointIds: readonly EndpointId[],
): Promise<SealedSecretRow[]> {
  return (await tx.query<SealedSecretRow>(SECRETS([plainArray(endpointIds)]))).rows;
}

const UPDATE_SECRETS = prepared(`
  UPDATE relayops.endpoint_secrets s SET ciphertext = n.ciphertext
  FROM unnest($1::uuid[], $2::bytea[]) AS n (secret_id, ciphertext) WHERE s.secret_id = n.secret_id`);
/** Index: primary key. */
export async function updateCiphertexts(tx: Transaction, rows: readonly SealedSecretRow[]): Promise<void> {
  const ids = plainArray(rows.map((row) => row.secret_id));
  await tx.query(UPDATE_SECRETS([ids, rows.map((row) => row.ciphertext)]));
}

const UPDATE_HEADERS = prepared(`
  UPDATE relayops.webhook_endpoints e SET headers = '{}', sealed_headers = n.sealed::jsonb
  FROM unnest($1::uuid[], $2::text[]) AS n (endpoint_id, sealed) WHERE e.endpoint_id = n.endpoint_id`);
/** The version stays: what the values are has not changed. Index: primary key. */
export async function updateSealedHeaders(
  tx: Transaction,
  rows: readonly Pick<SealedEndpointRow, 'endpoint_id' | 'sealed_headers'>[],
): Promise<void> {
  const ids = plainArray(rows.map((row) => row.endpoint_id));
  await tx.query(UPDATE_HEADERS([ids, rows.map((row) => JSON.stringify(row.sealed_headers))]));
}
