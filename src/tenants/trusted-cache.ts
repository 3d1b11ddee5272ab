import type { Clock } from '../shared/clock.ts';

/** What a look-up found, and for how many ms after its start it may be trusted; 0 keeps it out of the cache. */
export interface Finding<V> {
  readonly value: V;
  readonly trustMs: number;
}

/**
 * A bounded cache of findings that are trusted for a short time. Concurrent look-ups of one key become one. The time counts from
 * the start of the look-up, so that what was changed in the database meanwhile is seen within the trusted time too.
 */
export class TrustedCache<V> {
  readonly #clock: Clock;
  readonly #maxEntries: number;
  readonly #entries = new Map<string, { readonly value: V; readonly until: number }>();
  readonly #pending = new Map<string, { readonly ticket: symbol; readonly value: Promise<V> }>();

  constructor(clock: Clock, maxEntries: number) {
    this.#clock = clock;
    this.#maxEntries = maxEntries;
  }

  /** The value when it is still trusted. Does no I/O. */
  peek(key: string): V | undefined {
    const entry = this.#entries.get(key);
    return entry !== undefined && this.#clock.now() < entry.until ? entry.value : undefined;
  }

  /** The trusted value, or what `lookUp` finds. A failed look-up rejects all who wait for it and is not kept. */
  async get(key: string, lookUp: () => Promise<Finding<V>>): Promise<V> {
    const known = this.peek(key);
    if (known !== undefined) return known;
    const pending = this.#pending.get(key);
    if (pending !== undefined) return pending.value;
    const ticket = Symbol('look-up');
    const value = this.#fill(key, ticket, lookUp);
    this.#pending.set(key, { ticket, value });
    return value;
  }

  /** Forgets the key at once; a look-up under way still answers those who wait but is not kept. */
  drop(key: string): void {
    this.#entries.delete(key);
    this.#pending.delete(key);
  }

  async #fill(key: string, ticket: symbol, lookUp: () => Promise<Finding<V>>): Promise<V> {
    const startedAt = this.#clock.now();
    const wanted = (): boolean => this.#pending.get(key)?.ticket === ticket;
    try {
      // Called a turn later, so that `get` has noted the look-up before it can end.
      const { value, trustMs } = await Promise.resolve().then(lookUp);
      if (trustMs > 0 && wanted()) this.#keep(key, value, startedAt + trustMs);
      return value;
    } finally {
      if (wanted()) this.#pending.delete(key);
    }
  }

  #keep(key: string, value: V, until: number): void {
    this.#entries.delete(key);
    if (this.#entries.size >= this.#maxEntries) {
      const oldest = this.#entries.keys().next();
      if (!oldest.done) this.#entries.delete(oldest.value);
    }
    this.#entries.set(key, { value, until });
  }
}
