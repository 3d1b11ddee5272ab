import type { Queryable } from '../platform/db/database.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import { type Clock, systemClock } from '../shared/clock.ts';
import { type TenantId, newId } from '../shared/ids.ts';
import { toTenant } from './account.dto.ts';
import type { Me, Tenant } from './account.schemas.ts';
import { SCOPES, type Principal, userOfActor } from './scopes.ts';
import { findTenant, findTenantLimits, insertTenant, renameTenant } from './tenant.sql.ts';
import { findUser } from './user.sql.ts';

/** The caller's own tenant, and the caller. */
export class TenantService {
  readonly #db: Queryable;

  constructor(db: Queryable) {
    this.#db = db;
  }

  /** @throws NOT_FOUND */
  async get({ tenantId }: Principal): Promise<Tenant> {
    const row = await findTenant(this.#db, tenantId);
    if (row === undefined) throw routeNotFound();
    return toTenant(row);
  }

  /** @throws NOT_FOUND */
  async rename({ tenantId }: Principal, name: string): Promise<Tenant> {
    const row = await renameTenant(this.#db, tenantId, name);
    if (row === undefined) throw routeNotFound();
    return toTenant(row);
  }

  async me({ tenantId, actor, scopes }: Principal): Promise<Me> {
    const userId = userOfActor(actor);
    const user = userId && (await findUser(this.#db, tenantId, userId));
    return {
      actor,
      tenantId,
      scopes: SCOPES.filter((scope) => scopes.has(scope)),
      user: user ? { userId: user.user_id, email: user.email, role: user.role } : null,
    };
  }
}

/** Makes a tenant without users; for the command line and for tests. */
export async function createTenant(
  db: Queryable,
  { name }: { readonly name: string },
  clock: Clock = systemClock,
): Promise<TenantId> {
  const row = await insertTenant(db, newId<TenantId>(clock.now()), name);
  return row.tenant_id;
}

/** What a tenant may send: events per second and events at once. Null takes the configured default. */
export interface TenantLimits {
  readonly ingestRate: number | null;
  readonly ingestBurst: number | null;
}

export async function loadTenantLimits(db: Queryable, tenantId: TenantId): Promise<TenantLimits> {
  const row = await findTenantLimits(db, tenantId);
  return { ingestRate: row?.ingest_rate ?? null, ingestBurst: row?.ingest_burst ?? null };
}
