import type { TenantId } from '../shared/ids.ts';
import type { Laned } from './accept-lanes.ts';

/** What may wait in this process for its commit. */
export interface RoomBounds {
  readonly maxEvents: number;
  readonly maxBytes: number;
  readonly maxDeliveries: number;
}

interface Held {
  events: number;
  bytes: number;
  deliveries: number;
}

/** What one tenant may hold of the whole. */
const TENANT_SHARE = 0.5;

/** Counts what waits for its commit, in all and by tenant, so that neither passes its bound. */
export class AcceptRoom {
  readonly #bounds: RoomBounds;
  readonly #all: Held = { events: 0, bytes: 0, deliveries: 0 };
  readonly #byTenant = new Map<TenantId, Held>();

  constructor(bounds: RoomBounds) {
    this.#bounds = bounds;
  }

  /** Whether one more event of a tenant may wait. An event alone always may. */
  hasRoom(tenantId: TenantId): boolean {
    const own = this.#byTenant.get(tenantId);
    return (
      isBelow(this.#all, this.#bounds, 1) && (own === undefined || isBelow(own, this.#bounds, TENANT_SHARE))
    );
  }

  take({ tenantId, bytes, deliveryCount }: Laned): void {
    let own = this.#byTenant.get(tenantId);
    if (own === undefined) this.#byTenant.set(tenantId, (own = { events: 0, bytes: 0, deliveries: 0 }));
    for (const held of [own, this.#all]) {
      held.events += 1;
      held.bytes += bytes;
      held.deliveries += deliveryCount;
    }
  }

  give({ tenantId, bytes, deliveryCount }: Laned): void {
    const own = this.#byTenant.get(tenantId)!;
    for (const held of [own, this.#all]) {
      held.events -= 1;
      held.bytes -= bytes;
      held.deliveries -= deliveryCount;
    }
    if (own.events === 0) this.#byTenant.delete(tenantId);
  }
}

function isBelow(held: Held, { maxEvents, maxBytes, maxDeliveries }: RoomBounds, share: number): boolean {
  return (
    held.events < maxEvents * share &&
    held.bytes < maxBytes * share &&
    held.deliveries < maxDeliveries * share
  );
}
