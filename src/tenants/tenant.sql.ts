import type { Queryable, Transaction } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { TenantId } from '../shared/ids.ts';

export interface TenantRow {
  readonly tenant_id: TenantId;
  readonly name: string;
  readonly created_at: Date;
}

const INSERT = prepared(
  'INSERT INTO relayops.tenants (tenant_id, name) VALUES ($1, $2) RETURNING tenant_id, name, created_at',
);
export async function insertTenant(db: Queryable, tenantId: TenantId, name: string): Promise<TenantRow> {
  const { rows } = await db.query<TenantRow>(INSERT([tenantId, name]));
  return rows[0]!;
}

const FIND = prepared('SELECT tenant_id, name, created_at FROM relayops.tenants WHERE tenant_id = $1');
/** Index: primary key. */
export async function findTenant(db: Queryable, tenantId: TenantId): Promise<TenantRow | undefined> {
  const { rows } = await db.query<TenantRow>(FIND([tenantId]));
  return rows[0];
}

const RENAME = prepared(
  'UPDATE relayops.tenants SET name = $2 WHERE tenant_id = $1 RETURNING tenant_id, name, created_at',
);
/** Index: primary key. */
export async function renameTenant(
  db: Queryable,
  tenantId: TenantId,
  name: string,
): Promise<TenantRow | undefined> {
  const { rows } = await db.query<TenantRow>(RENAME([tenantId, name]));
  return rows[0];
}

const LOCK = prepared('SELECT tenant_id FROM relayops.tenants WHERE tenant_id = $1 FOR NO KEY UPDATE');
/**
 * Makes changes of one tenant's users take turns, so that two cannot each remove "the other" owner. Index: primary key. Locks
 * the tenant's row until the transaction ends; inserts that refer to it (FOR KEY SHARE) go on meanwhile.
 */
export async function lockTenant(tx: Transaction, tenantId: TenantId): Promise<void> {
  await tx.query(LOCK([tenantId]));
}

const LIMITS = prepared('SELECT ingest_rate, ingest_burst FROM relayops.tenants WHERE tenant_id = $1');
/** Index: primary key. */
export async function findTenantLimits(
  db: Queryable,
  tenantId: TenantId,
): Promise<{ ingest_rate: number | null; ingest_burst: number | null } | undefined> {
  const { rows } = await db.query<{ ingest_rate: number | null; ingest_burst: number | null }>(
    LIMITS([tenantId]),
  );
  return rows[0];
}
