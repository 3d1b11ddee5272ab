import type { Tenant, User } from './account.schemas.ts';
import type { TenantRow } from './tenant.sql.ts';
import type { UserRow } from './user.sql.ts';

export function toTenant(row: TenantRow): Tenant {
  return { tenantId: row.tenant_id, name: row.name, createdAt: row.created_at.toISOString() };
}

export function toUser(row: UserRow): User {
  return {
    userId: row.user_id,
    email: row.email,
    role: row.role,
    createdAt: row.created_at.toISOString(),
    disabledAt: row.disabled_at?.toISOString() ?? null,
    deletedAt: row.deleted_at?.toISOString() ?? null,
  };
}
