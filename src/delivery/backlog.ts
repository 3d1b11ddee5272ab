import type { Database, Queryable } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import { sleep } from '../shared/abort.ts';

/** Open work as of the last sample. */
export interface BacklogSample {
  readonly open: number;
  readonly leased: number;
  readonly oldestDueMs: number;
}

/** Counting further would cost more than it tells: above it the statistics' estimate is used. */
const EXACT_UP_TO = 20_000;

const sample = prepared(`
  SELECT (SELECT count(*) FROM (SELECT 1 FROM relayops.delivery_work LIMIT ${EXACT_UP_TO}) w)::int AS counted,
         coalesce((SELECT n_live_tup FROM pg_stat_user_tables
                   WHERE schemaname = 'relayops' AND relname = 'delivery_work'), 0)::float8 AS estimated`);

/** Exact up to a bound, then the statistics' estimate, which lags by a second or so. Scans at most that many rows. */
export async function sampleOpenWork(db: Queryable): Promise<number> {
  const row = (await db.query<{ counted: number; estimated: number }>(sample([]))).rows[0];
  if (row === undefined) return 0;
  return row.counted < EXACT_UP_TO ? row.counted : Math.max(row.counted, row.estimated);
}

export interface BacklogOptions {
  readonly database: Database;
  readonly high: number;
  readonly low: number;
  readonly everyMs: number;
  readonly onSample: (open: number) => void;
  readonly onError: (error: unknown) => void;
}

/** Closes intake at the high threshold and opens it again below the low one, so that it does not flap (SPEC C4). */
export class BacklogGate {
  readonly #options: BacklogOptions;
  readonly #controller = new AbortController();
  #running: Promise<void> | undefined;
  #open = 0;
  #full = false;

  constructor(options: BacklogOptions) {
    this.#options = options;
  }

  state(): { full: boolean; open: number } {
    return { full: this.#full, open: this.#open };
  }

  start(): void {
    this.#running ??= this.#loop(this.#controller.signal);
  }

  async stop(): Promise<void> {
    this.#controller.abort();
    await this.#running;
  }

  /** Samples now; the loop does it by itself. */
  async look(): Promise<void> {
    this.#open = await sampleOpenWork(this.#options.database.requests);
    if (this.#open >= this.#options.high) this.#full = true;
    else if (this.#open < this.#options.low) this.#full = false;
    this.#options.onSample(this.#open);
  }

  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        await this.look();
      } catch (error) {
        this.#options.onError(error);
      }
      await sleep(this.#options.everyMs, signal);
    }
  }
}
