import type { Clock } from '../../shared/clock.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { BucketLimit, Coordination, Permit, PermitGrant, PermitRequest, TakeResult } from '../port.ts';
import { TokenBuckets } from '../token-buckets.ts';

interface HeldPermit extends Permit {
  held: boolean;
  readonly limit: BucketLimit | null;
}

/** Coordination within one process: exact, and gone with it. */
export class MemoryCoordination implements Coordination {
  readonly #buckets: TokenBuckets;
  readonly #slots = new Map<EndpointId, number>();

  constructor(clock: Clock) {
    this.#buckets = new TokenBuckets(clock);
  }

  async take(bucket: string, n: number, limit: BucketLimit): Promise<TakeResult> {
    return this.#buckets.take(bucket, n, limit);
  }

  async charge(bucket: string, n: number, limit: BucketLimit): Promise<void> {
    this.#buckets.charge(bucket, n, limit);
  }

  async acquire(requests: readonly PermitRequest[]): Promise<PermitGrant[]> {
    return requests.map((request) => this.#acquireOne(request));
  }

  release(permits: readonly Permit[], used: boolean): void {
    for (const permit of permits as readonly HeldPermit[]) {
      if (!permit.held) continue;
      permit.held = false;
      const slots = (this.#slots.get(permit.endpointId) ?? 1) - 1;
      if (slots === 0) this.#slots.delete(permit.endpointId);
      else this.#slots.set(permit.endpointId, slots);
      if (!used && permit.limit) this.#buckets.giveBack(bucketOf(permit.endpointId), 1, permit.limit);
    }
  }

  held(): ReadonlyMap<EndpointId, number> {
    return this.#slots;
  }

  async close(): Promise<void> {
    this.#buckets.clear();
    this.#slots.clear();
  }

  #acquireOne({ endpointId, wanted, limits }: PermitRequest): PermitGrant {
    const inUse = this.#slots.get(endpointId) ?? 0;
    const free = Math.max(0, Math.min(wanted, limits.maxConcurrency - inUse));
    const { count, retryAfterMs } = limits.rate
      ? this.#buckets.takeUpTo(bucketOf(endpointId), free, limits.rate)
      : { count: free, retryAfterMs: null };
    if (count > 0) this.#slots.set(endpointId, inUse + count);
    const permits = Array.from({ length: count }, (): HeldPermit => ({
      endpointId,
      held: true,
      limit: limits.rate,
    }));
    return { endpointId, permits, retryAfterMs };
  }
}

function bucketOf(endpointId: EndpointId): string {
  return `endpoint:${endpointId}`;
}
