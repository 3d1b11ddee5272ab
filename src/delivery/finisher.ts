import { isTransient, type Database } from '../platform/db/database.ts';
import { sleep } from '../shared/abort.ts';
import type { DeliveryId } from '../shared/ids.ts';
import { type FinishedAttempt, finishWork, type OutboxRule } from './finish.sql.ts';

export interface FinisherDeps {
  readonly database: Database;
  readonly worker: string;
  readonly maxBatch: number;
  /** Null on a transport without messages. */
  readonly outbox: OutboxRule | null;
  /** A batch was committed; `late` are the deliveries whose lease had gone to another. */
  readonly onCommitted: (
    batch: readonly FinishedAttempt[],
    late: ReadonlySet<DeliveryId>,
    durationMs: number,
  ) => void;
  /** A result that the database does not take: its delivery is left to the end of its lease. */
  readonly onRefused: (result: FinishedAttempt) => void;
  readonly onError: (error: unknown) => void;
}

const RETRY_PAUSE_MS = 200;
/**
 * Batches begin this far apart unless the next is full: each costs the database half a millisecond before its first row, and nobody waits for a result.
 * It is short because what a killed worker had not committed is sent again.
 */
const GATHER_MS = 10;

/**
 * Writes results in groups: what arrives while one batch is being committed, and shortly after, makes the next. Results are kept until they
 * are committed, however long the database is away; the worker takes no new work meanwhile, so that this is bounded.
 */
export class Finisher {
  readonly #deps: FinisherDeps;
  #waiting: FinishedAttempt[] = [];
  #running: Promise<void> | undefined;
  #givenUp = false;
  #isStalled = false;

  constructor(deps: FinisherDeps) {
    this.#deps = deps;
  }

  /** Results that are not committed yet, without those of the batch that is being written. */
  get backlog(): number {
    return this.#waiting.length;
  }

  /** The database does not take results now: what is claimed meanwhile would run into the end of its lease. */
  get isStalled(): boolean {
    return this.#isStalled;
  }

  add(result: FinishedAttempt): void {
    this.#waiting.push(result);
    // The next turn of the event loop: results of the same turn share the batch.
    this.#running ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.#drain());
  }

  /** Resolves when everything added so far is committed, or when the signal aborts: then the rest is left to lease expiry. */
  async flush(signal: AbortSignal): Promise<void> {
    const aborted = new Promise<void>((resolve) =>
      signal.addEventListener('abort', () => resolve(), { once: true }),
    );
    while (this.#running && !signal.aborted) await Promise.race([this.#running, aborted]);
    this.#givenUp = this.#running !== undefined;
  }

  async #drain(): Promise<void> {
    while (this.#waiting.length > 0 && !this.#givenUp) {
      const nextAtMs = performance.now() + GATHER_MS;
      await this.#commit(this.#waiting.splice(0, this.#deps.maxBatch));
      const gatherMs = nextAtMs - performance.now();
      if (gatherMs > 0 && this.#waiting.length < this.#deps.maxBatch) await sleep(gatherMs);
    }
    this.#running = undefined;
  }

  async #commit(batch: readonly FinishedAttempt[]): Promise<void> {
    for (;;) {
      const started = performance.now();
      try {
        const late = await finishWork(
          this.#deps.database.delivery,
          this.#deps.worker,
          batch,
          this.#deps.outbox,
        );
        this.#isStalled = false;
        this.#deps.onCommitted(batch, new Set(late), performance.now() - started);
        return;
      } catch (error) {
        this.#deps.onError(error);
        if (this.#givenUp) return;
        if (isTransient(error)) {
          this.#isStalled = true;
          await sleep(RETRY_PAUSE_MS);
          continue;
        }
        // It has answered.
        this.#isStalled = false;
        if (batch.length > 1) {
          // One row that the database does not take must not hold up its neighbours.
          const middle = batch.length >> 1;
          await this.#commit(batch.slice(0, middle));
          await this.#commit(batch.slice(middle));
        }
        // A single refused result stays uncommitted: its lease runs out and its attempt is recorded as unknown, which is true.
        else this.#deps.onRefused(batch[0]!);
        return;
      }
    }
  }
}
