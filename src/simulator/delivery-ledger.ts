const ROWS_PER_SLAB = 1_024;
const DIGEST_BYTES = 32;

interface Slab {
  readonly counts: Uint32Array;
  readonly okAnswers: Uint32Array;
  readonly digests: Buffer;
}

/** How many deliveries all ledgers of a simulator may still take up. */
export interface LedgerBudget {
  left: number;
}

/** One delivery as it is paged out: `[delivery ID, requests, 2xx answers, SHA-256 of the first body]`. */
export type LedgerRow = readonly [string, number, number, string];

/**
 * Which deliveries came, how often, and how often they were answered 2xx: what shows loss, duplicates and changed bytes after a
 * run. Numbers and digests lie in slabs outside the garbage-collected heap, because two million small objects cost a
 * benchmark its simulator.
 */
export class DeliveryLedger {
  readonly #index = new Map<string, number>();
  readonly #ids: string[] = [];
  readonly #slabs: Slab[] = [];
  readonly #budget: LedgerBudget;
  #succeeded = 0;

  constructor(budget: LedgerBudget) {
    this.#budget = budget;
  }

  get size(): number {
    return this.#ids.length;
  }

  /** Deliveries that were answered 2xx at least once. */
  get succeeded(): number {
    return this.#succeeded;
  }

  /**
   * Counts one request.
   * @param digest SHA-256 of the body as binary text
   * @returns its row and what was known of the delivery before, or undefined when the budget is used up
   */
  arrive(
    id: string,
    digest: string,
  ): { row: number; before: number; okBefore: number; sameBody: boolean } | undefined {
    const known = this.#index.get(id);
    const row = known ?? this.#append(id, digest);
    if (row === undefined) return undefined;
    const slab = this.#slab(row);
    const at = row % ROWS_PER_SLAB;
    const before = slab.counts[at]!;
    slab.counts[at] = before + 1;
    return {
      row,
      before,
      okBefore: slab.okAnswers[at]!,
      sameBody: known === undefined || digestAt(slab, at, 'binary') === digest,
    };
  }

  answeredOk(row: number): void {
    const slab = this.#slab(row);
    const at = row % ROWS_PER_SLAB;
    if (slab.okAnswers[at] === 0) this.#succeeded += 1;
    slab.okAnswers[at]! += 1;
  }

  /** Rows in order of first arrival, from position `after` on. */
  page(after: number, limit: number): LedgerRow[] {
    return this.#ids.slice(after, after + limit).map((id, i): LedgerRow => {
      const slab = this.#slab(after + i);
      const at = (after + i) % ROWS_PER_SLAB;
      return [id, slab.counts[at]!, slab.okAnswers[at]!, digestAt(slab, at, 'hex')];
    });
  }

  /** Gives its share of the budget back. The ledger takes no further request. */
  release(): void {
    this.#budget.left += this.#ids.length;
  }

  #append(id: string, digest: string): number | undefined {
    if (this.#budget.left === 0) return undefined;
    this.#budget.left -= 1;
    const row = this.#ids.push(id) - 1;
    this.#index.set(id, row);
    if (row % ROWS_PER_SLAB === 0) this.#slabs.push(newSlab());
    this.#slab(row).digests.write(digest, (row % ROWS_PER_SLAB) * DIGEST_BYTES, 'binary');
    return row;
  }

  #slab(row: number): Slab {
    return this.#slabs[Math.floor(row / ROWS_PER_SLAB)]!;
  }
}

function newSlab(): Slab {
  return {
    counts: new Uint32Array(ROWS_PER_SLAB),
    okAnswers: new Uint32Array(ROWS_PER_SLAB),
    digests: Buffer.alloc(ROWS_PER_SLAB * DIGEST_BYTES),
  };
}

function digestAt({ digests }: Slab, at: number, encoding: 'binary' | 'hex'): string {
  return digests.toString(encoding, at * DIGEST_BYTES, (at + 1) * DIGEST_BYTES);
}
