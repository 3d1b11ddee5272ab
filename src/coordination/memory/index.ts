import type { Clock } from '../../shared/clock.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { BucketLimit, Coordination, Permit, PermitGrant, PermitRequest, TakeResult } from '../port.ts';
import { type BucketLevel, msUntil, refill } from './token-bucket.ts';

/** Buckets kept at most; the least recently used goes, and comes back full. */
const MAX_BUCKETS = 100_000;

interface HeldPermit extends Permit {
  held: boolean;
  readonly limit: BucketLimit | null;
}

/** Coordination within one process: exact, and gone with it. */
export class MemoryCoordination implements Coordination {
  readonly #clock: Clock;
  readonly #buckets = new Map<string, BucketLevel>();
  readonly #slots = new Map<EndpointId, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  async take(bucket: string, n: number, limit: BucketLimit): Promise<TakeResult> {
    const level = refill(this.#buckets.get(bucket), limit, this.#clock.now());
    const ok = level.tokens >= n;
    this.#store(bucket, ok ? { ...level, tokens: level.tokens - n } : level);
    return ok ? { ok } : { ok, retryAfterMs: msUntil(level, limit, n) };
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
      if (!used && permit.limit) this.#giveBackToken(permit.endpointId, permit.limit);
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
      ? this.#takeUpTo(bucketOf(endpointId), free, limits.rate)
      : { count: free, retryAfterMs: null };
    if (count > 0) this.#slots.set(endpointId, inUse + count);
    const permits = Array.from({ length: count }, (): HeldPermit => ({
      endpointId,
      held: true,
      limit: limits.rate,
    }));
    return { endpointId, permits, retryAfterMs };
  }

  #takeUpTo(
    bucket: string,
    wanted: number,
    limit: BucketLimit,
  ): { count: number; retryAfterMs: number | null } {
    const level = refill(this.#buckets.get(bucket), limit, this.#clock.now());
    const count = Math.min(wanted, Math.floor(level.tokens));
    this.#store(bucket, { ...level, tokens: level.tokens - count });
    return {
      count,
      retryAfterMs: count < wanted ? msUntil({ ...level, tokens: level.tokens - count }, limit, 1) : null,
    };
  }

  #giveBackToken(endpointId: EndpointId, limit: BucketLimit): void {
    const level = refill(this.#buckets.get(bucketOf(endpointId)), limit, this.#clock.now());
    this.#store(bucketOf(endpointId), { ...level, tokens: Math.min(limit.burst, level.tokens + 1) });
  }

  #store(bucket: string, level: BucketLevel): void {
    this.#buckets.delete(bucket);
    this.#buckets.set(bucket, level);
    if (this.#buckets.size > MAX_BUCKETS) {
      const oldest = this.#buckets.keys().next();
      if (!oldest.done) this.#buckets.delete(oldest.value);
    }
  }
}

function bucketOf(endpointId: EndpointId): string {
  return `endpoint:${endpointId}`;
}
