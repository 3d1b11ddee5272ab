interface Entry<V> {
  readonly value: V;
  readonly share: string;
  readonly untilMs: number;
}

/**
 * Answers with a time to live, bounded in number. Each answer counts for the share (tenant) that asked for it. One share holds half
 * of the places at most; when all are taken, a share that holds its part or more replaces its own least recently used answer, any
 * other the least recently used of all.
 */
export class AnswerCache<V> {
  readonly #maxEntries: number;
  readonly #now: () => number;
  /** Least recently used first, as the sets of names of each share. */
  readonly #entries = new Map<string, Entry<V>>();
  readonly #shares = new Map<string, Set<string>>();

  /** @param now a monotonic clock in milliseconds */
  constructor(maxEntries: number, now: () => number) {
    this.#maxEntries = maxEntries;
    this.#now = now;
  }

  get size(): number {
    return this.#entries.size;
  }

  get(name: string): V | undefined {
    const entry = this.#entries.get(name);
    if (entry === undefined) return undefined;
    if (entry.untilMs <= this.#now()) {
      this.#remove(name);
      return undefined;
    }
    const names = this.#shares.get(entry.share)!;
    this.#entries.delete(name);
    this.#entries.set(name, entry);
    names.delete(name);
    names.add(name);
    return entry.value;
  }

  set(name: string, value: V, ttlMs: number, share: string): void {
    this.#remove(name);
    this.#makeRoom(share);
    this.#entries.set(name, { value, share, untilMs: this.#now() + ttlMs });
    const names = this.#shares.get(share);
    if (names) names.add(name);
    else this.#shares.set(share, new Set([name]));
  }

  #makeRoom(share: string): void {
    const own = this.#shares.get(share);
    const held = own?.size ?? 0;
    const isFull = this.#entries.size >= this.#maxEntries;
    if (held >= Math.ceil(this.#maxEntries / 2) || (isFull && held * this.#shares.size >= this.#maxEntries))
      this.#remove(firstOf(own!));
    else if (isFull) this.#remove(firstOf(this.#entries.keys()));
  }

  #remove(name: string): void {
    const entry = this.#entries.get(name);
    if (entry === undefined) return;
    this.#entries.delete(name);
    const names = this.#shares.get(entry.share)!;
    names.delete(name);
    if (names.size === 0) this.#shares.delete(entry.share);
  }
}

function firstOf(names: Iterable<string>): string {
  const [first] = names;
  return first!;
}
