import type { Clock } from '../shared/clock.ts';

export interface BucketLimit {
  /** How many may be taken at once. */
  readonly capacity: number;
  /** After how long one comes back. */
  readonly refillMs: number;
}

/**
 * A token bucket for each key, in memory. A full bucket takes no room. Over `maxKeys` the one that was used longest ago is forgotten:
 * choose it above what can be in use, so that nobody can push out the bucket of another (login-throttle.ts says how).
 */
export class Buckets {
  readonly #clock: Clock;
  readonly #limit: BucketLimit;
  readonly #maxKeys: number;
  /** When each bucket is full again; the one that was used longest ago is the first. */
  readonly #fullAt = new Map<string, number>();

  /** @param clock a monotonic one */
  constructor(clock: Clock, limit: BucketLimit, maxKeys: number) {
    this.#clock = clock;
    this.#limit = limit;
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#fullAt.size;
  }

  /** Milliseconds until there is something to take; 0 when there is. */
  waitMs(key: string): number {
    const { capacity, refillMs } = this.#limit;
    const fullAt = this.#fullAt.get(key);
    if (fullAt === undefined) return 0;
    return Math.max(0, fullAt - (capacity - 1) * refillMs - this.#clock.now());
  }

  /** Takes one. The caller has asked `waitMs` before. */
  take(key: string): void {
    const now = this.#clock.now();
    const fullAt = Math.max(now, this.#fullAt.get(key) ?? now) + this.#limit.refillMs;
    this.#fullAt.delete(key);
    this.#forgetOldest(now);
    this.#fullAt.set(key, fullAt);
  }

  giveBack(key: string): void {
    const fullAt = this.#fullAt.get(key);
    if (fullAt === undefined) return;
    const earlier = fullAt - this.#limit.refillMs;
    if (earlier <= this.#clock.now()) this.#fullAt.delete(key);
    else this.#fullAt.set(key, earlier);
  }

  /** Makes the bucket full. */
  forget(key: string): void {
    this.#fullAt.delete(key);
  }

  /** Two for each that is added, so that what has become full leaves at the pace at which others come. */
  #forgetOldest(now: number): void {
    for (const [key, fullAt] of [...this.#oldest(2)]) if (fullAt <= now) this.#fullAt.delete(key);
    if (this.#fullAt.size < this.#maxKeys) return;
    for (const [key] of this.#oldest(1)) this.#fullAt.delete(key);
  }

  *#oldest(count: number): Generator<[string, number]> {
    for (const entry of this.#fullAt) {
      if (count-- === 0) return;
      yield entry;
    }
  }
}
