import type { Clock } from '../../shared/clock.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { BucketLimit, PermitRequest, TakeResult } from '../port.ts';
import { TokenBuckets } from '../token-buckets.ts';
import type { SharedGrant } from './shared-limits.ts';

/**
 * What this process may use of each limit while Redis is away: its share, by the number of processes there were. Its buckets are kept up
 * beside Redis' all the time, so that an outage grants nobody a second burst.
 */
export class LocalLimits {
  readonly #clock: Clock;
  readonly #leaseMs: number;
  readonly #buckets: TokenBuckets;
  #processes = 1;
  #processesSeenMs = -Infinity;

  constructor(clock: Clock, leaseMs: number) {
    this.#clock = clock;
    this.#leaseMs = leaseMs;
    this.#buckets = new TokenBuckets(clock);
  }

  /** Redis was away and may have forgotten: those that have come back to it are not all that there are, for another lease. */
  noteReturn(): void {
    this.#processesSeenMs = this.#clock.now();
  }

  /** Fewer than before are believed after a lease: a Redis that forgot everything knows of one at first. */
  noteProcesses(count: number): void {
    const now = this.#clock.now();
    if (count < this.#processes && now - this.#processesSeenMs < this.#leaseMs) return;
    this.#processes = Math.max(1, count);
    this.#processesSeenMs = now;
  }

  /** A request that the whole limit allows is not refused for ever because a share is less: it waits for the full share and borrows. */
  take(bucket: string, n: number, limit: BucketLimit): TakeResult {
    const share = this.#shareOf(limit);
    const needed = n <= limit.burst ? Math.min(n, share.burst) : n;
    return this.#buckets.take(`t:${bucket}`, n, share, needed);
  }

  charge(bucket: string, n: number, limit: BucketLimit): void {
    this.#buckets.charge(`t:${bucket}`, n, this.#shareOf(limit));
  }

  /** @param mine slots of the endpoint that this process holds now, from Redis or from here */
  acquire({ endpointId, wanted, limits }: PermitRequest, mine: number): SharedGrant {
    const slots = Math.max(1, Math.floor(limits.maxConcurrency / this.#processes));
    const free = Math.max(0, Math.min(wanted, slots - mine));
    if (!limits.rate) return { count: free, retryAfterMs: null };
    return this.#buckets.takeUpTo(`e:${endpointId}`, free, this.#shareOf(limits.rate));
  }

  /** Redis granted tokens of an endpoint. */
  spend(endpointId: EndpointId, n: number, limit: BucketLimit): void {
    this.#buckets.spend(`e:${endpointId}`, n, this.#shareOf(limit));
  }

  /** Redis granted tokens of a named bucket. */
  spendNamed(bucket: string, n: number, limit: BucketLimit): void {
    this.#buckets.spend(`t:${bucket}`, n, this.#shareOf(limit));
  }

  giveBack(endpointId: EndpointId, n: number, limit: BucketLimit): void {
    this.#buckets.giveBack(`e:${endpointId}`, n, this.#shareOf(limit));
  }

  #shareOf(limit: BucketLimit): BucketLimit {
    return {
      ratePerSecond: limit.ratePerSecond / this.#processes,
      burst: Math.max(1, limit.burst / this.#processes),
    };
  }
}
