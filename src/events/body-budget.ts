import type { TenantId } from '../shared/ids.ts';

/** What one tenant may hold of the whole. */
const TENANT_SHARE = 0.5;

/**
 * Bytes of request bodies that this process holds while they arrive and until they are answered. Bounded in total and
 * by tenant, so that one tenant's uploads neither use up the memory nor keep others out.
 */
export class BodyBudget {
  readonly #maxBytes: number;
  readonly #byTenant = new Map<TenantId, number>();
  #bytes = 0;

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** The share of one request; it takes room as its body arrives, and gives all of it back at once. */
  open(tenantId: TenantId): BodyHold {
    return new BodyHold(this, tenantId);
  }

  /** Takes room for `bytes` more. @returns false when there is none: nothing was taken */
  take(tenantId: TenantId, bytes: number): boolean {
    const own = (this.#byTenant.get(tenantId) ?? 0) + bytes;
    if (this.#bytes + bytes > this.#maxBytes || own > this.#maxBytes * TENANT_SHARE) return false;
    this.#bytes += bytes;
    this.#byTenant.set(tenantId, own);
    return true;
  }

  give(tenantId: TenantId, bytes: number): void {
    this.#bytes -= bytes;
    const own = (this.#byTenant.get(tenantId) ?? 0) - bytes;
    if (own > 0) this.#byTenant.set(tenantId, own);
    else this.#byTenant.delete(tenantId);
  }
}

/** What one request holds of the budget. */
export class BodyHold {
  readonly #budget: BodyBudget;
  readonly #tenantId: TenantId;
  #bytes = 0;

  constructor(budget: BodyBudget, tenantId: TenantId) {
    this.#budget = budget;
    this.#tenantId = tenantId;
  }

  take(bytes: number): boolean {
    if (!this.#budget.take(this.#tenantId, bytes)) return false;
    this.#bytes += bytes;
    return true;
  }

  release(): void {
    if (this.#bytes > 0) this.#budget.give(this.#tenantId, this.#bytes);
    this.#bytes = 0;
  }
}
