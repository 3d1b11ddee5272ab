import type { Clock } from '../shared/clock.ts';
import type { BucketLimit, TakeResult } from './port.ts';
import { type BucketLevel, msUntil, refill } from './token-bucket.ts';

/** Buckets kept at most; the least recently used goes, and comes back full. */
const MAX_BUCKETS = 100_000;

/** Token buckets of one process, by name. */
export class TokenBuckets {
  readonly #clock: Clock;
  readonly #levels = new Map<string, BucketLevel>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /**
   * Takes `n` tokens, all or none.
   * @param needed tokens that must be there, when fewer than `n` are enough: the bucket is then in debt, and pays by the time it takes to
   * fill up
   */
  take(name: string, n: number, limit: BucketLimit, needed = n): TakeResult {
    const level = this.#level(name, limit);
    const ok = level.tokens >= needed;
    this.#store(name, ok ? { ...level, tokens: level.tokens - n } : level);
    return ok ? { ok } : { ok, retryAfterMs: msUntil(level, limit, needed) };
  }

  /** Takes as many as are there, `wanted` at most. `retryAfterMs` is null when that was enough. */
  takeUpTo(
    name: string,
    wanted: number,
    limit: BucketLimit,
  ): { readonly count: number; readonly retryAfterMs: number | null } {
    const level = this.#level(name, limit);
    const count = Math.max(0, Math.min(wanted, Math.floor(level.tokens)));
    const left = { ...level, tokens: level.tokens - count };
    this.#store(name, left);
    return { count, retryAfterMs: count < wanted ? msUntil(left, limit, 1) : null };
  }

  /** Writes off tokens that were granted elsewhere, as far as there are any. */
  spend(name: string, n: number, limit: BucketLimit): void {
    const level = this.#level(name, limit);
    this.#store(name, { ...level, tokens: Math.max(Math.min(0, level.tokens), level.tokens - n) });
  }

  /** Takes tokens that need not be there; what is missing is a debt, of the burst at most. */
  charge(name: string, n: number, limit: BucketLimit): void {
    const level = this.#level(name, limit);
    this.#store(name, { ...level, tokens: Math.max(-limit.burst, level.tokens - n) });
  }

  giveBack(name: string, n: number, limit: BucketLimit): void {
    const level = this.#level(name, limit);
    this.#store(name, { ...level, tokens: Math.min(limit.burst, level.tokens + n) });
  }

  clear(): void {
    this.#levels.clear();
  }

  #level(name: string, limit: BucketLimit): BucketLevel {
    return refill(this.#levels.get(name), limit, this.#clock.now());
  }

  #store(name: string, level: BucketLevel): void {
    this.#levels.delete(name);
    this.#levels.set(name, level);
    if (this.#levels.size > MAX_BUCKETS) {
      const oldest = this.#levels.keys().next();
      if (!oldest.done) this.#levels.delete(oldest.value);
    }
  }
}
