import type { Queryable, Transaction } from '../platform/db/database.ts';
import { plainArray, prepared, textArray } from '../platform/db/sql.ts';
import type { EndpointId, SubscriptionId, TenantId } from '../shared/ids.ts';

export interface StoredSubscription {
  readonly subscription_id: SubscriptionId;
  readonly endpoint_id: EndpointId;
  readonly pattern: string;
  readonly filter: string | null;
  readonly created_at: Date;
}

export interface NewSubscription {
  readonly subscriptionId: SubscriptionId;
  readonly pattern: string;
  readonly filter: string | null;
}

const COLUMNS = 'subscription_id, endpoint_id, pattern, filter, created_at';

const INSERT = prepared(`
  INSERT INTO relayops.endpoint_subscriptions (tenant_id, endpoint_id, subscription_id, pattern, filter)
  SELECT $1, $2, n.* FROM unnest($3::uuid[], $4::text[], $5::text[]) AS n
  RETURNING ${COLUMNS}`);
/** The endpoint is one that this transaction has made or locked. */
export async function insertSubscriptions(
  tx: Transaction,
  tenantId: TenantId,
  endpointId: EndpointId,
  subscriptions: readonly NewSubscription[],
): Promise<StoredSubscription[]> {
  const { rows } = await tx.query<StoredSubscription>(
    INSERT([
      tenantId,
      endpointId,
      plainArray(subscriptions.map((one) => one.subscriptionId)),
      textArray(subscriptions.map((one) => one.pattern)),
      textArray(subscriptions.map((one) => one.filter)),
    ]),
  );
  return rows;
}

const COUNT = prepared(
  'SELECT count(*)::int AS count FROM relayops.endpoint_subscriptions WHERE endpoint_id = $1',
);
/** Exact as long as the transaction has locked the endpoint. Index: endpoint_subscriptions_endpoint. */
export async function countSubscriptions(tx: Transaction, endpointId: EndpointId): Promise<number> {
  const { rows } = await tx.query<{ count: number }>(COUNT([endpointId]));
  return rows[0]!.count;
}

const LIST = prepared(`
  SELECT ${COLUMNS} FROM relayops.endpoint_subscriptions
  WHERE tenant_id = $1 AND endpoint_id = $2 AND ($3::uuid IS NULL OR subscription_id < $3)
  ORDER BY subscription_id DESC LIMIT $4`);
/** Newest first. Index: endpoint_subscriptions_endpoint, backwards. */
export async function listSubscriptions(
  db: Queryable,
  tenantId: TenantId,
  endpointId: EndpointId,
  page: { readonly before: string | null; readonly limit: number },
): Promise<StoredSubscription[]> {
  const { rows } = await db.query<StoredSubscription>(LIST([tenantId, endpointId, page.before, page.limit]));
  return rows;
}

const UPDATE = prepared(`
  UPDATE relayops.endpoint_subscriptions
  SET pattern = coalesce($4, pattern), filter = CASE WHEN $5::boolean THEN $6 ELSE filter END
  WHERE tenant_id = $1 AND endpoint_id = $2 AND subscription_id = $3
  RETURNING ${COLUMNS}`);
/** What is absent stays; a filter of null is removed. Index: primary key. */
export async function updateSubscription(
  tx: Transaction,
  tenantId: TenantId,
  endpointId: EndpointId,
  subscriptionId: SubscriptionId,
  { pattern, filter }: { readonly pattern?: string; readonly filter?: string | null },
): Promise<StoredSubscription | undefined> {
  const { rows } = await tx.query<StoredSubscription>(
    UPDATE([tenantId, endpointId, subscriptionId, pattern ?? null, filter !== undefined, filter ?? null]),
  );
  return rows[0];
}

const DELETE = prepared(`
  DELETE FROM relayops.endpoint_subscriptions WHERE tenant_id = $1 AND endpoint_id = $2 AND subscription_id = $3`);
/** Index: primary key. @returns false when the endpoint has no such subscription */
export async function deleteSubscription(
  tx: Transaction,
  tenantId: TenantId,
  endpointId: EndpointId,
  subscriptionId: SubscriptionId,
): Promise<boolean> {
  return (await tx.query(DELETE([tenantId, endpointId, subscriptionId]))).rowCount === 1;
}

const DELETE_ALL = prepared('DELETE FROM relayops.endpoint_subscriptions WHERE endpoint_id = $1');
/** Of an endpoint that the transaction has locked. Index: endpoint_subscriptions_endpoint. */
export async function deleteSubscriptions(tx: Transaction, endpointId: EndpointId): Promise<void> {
  await tx.query(DELETE_ALL([endpointId]));
}
