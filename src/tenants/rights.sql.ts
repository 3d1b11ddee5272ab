import type { Transaction } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { ApiKeyId, TenantId, UserId } from '../shared/ids.ts';
import type { Role } from './scopes.ts';

const LOCK_USER = prepared(`
  SELECT role, generation FROM relayops.user_accounts
  WHERE tenant_id = $1 AND user_id = $2 AND disabled_at IS NULL AND deleted_at IS NULL FOR NO KEY UPDATE`);
/** Undefined when the user is disabled, deleted or not there. Index: primary key. Locks the row until the transaction ends. */
export async function lockRightsOfUser(
  tx: Transaction,
  tenantId: TenantId,
  userId: UserId,
): Promise<{ readonly role: Role; readonly generation: number } | undefined> {
  const { rows } = await tx.query<{ role: Role; generation: number }>(LOCK_USER([tenantId, userId]));
  return rows[0];
}

const LOCK_KEY = prepared(`
  SELECT scopes FROM relayops.api_keys
  WHERE tenant_id = $1 AND api_key_id = $2 AND revoked_at IS NULL AND (expires_at IS NULL OR expires_at > now())
  FOR NO KEY UPDATE`);
/** Undefined when the key is revoked, expired or not there. Index: primary key. Locks the row until the transaction ends. */
export async function lockScopesOfApiKey(
  tx: Transaction,
  tenantId: TenantId,
  apiKeyId: ApiKeyId,
): Promise<string[] | undefined> {
  const { rows } = await tx.query<{ scopes: string[] }>(LOCK_KEY([tenantId, apiKeyId]));
  return rows[0]?.scopes;
}
