import type { Database, Queryable } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import { sleep } from '../shared/abort.ts';

/** Work and leftovers as of the last sample. */
export interface BacklogSample {
  readonly open: number;
  readonly leased: number;
  readonly failed: number;
  readonly dead: number;
}

/** Counting further would cost more than it tells: above it the statistics' estimate is used, or the bound is shown. */
const EXACT_UP_TO = 20_000;

const sample = prepared(`
  WITH work AS MATERIALIZED (SELECT coalesce(lease_until > now(), false) AS leased FROM relayops.delivery_work LIMIT ${EXACT_UP_TO}),
       ended AS MATERIALIZED (SELECT state FROM relayops.deliveries WHERE unsuccessful_at IS NOT NULL LIMIT ${EXACT_UP_TO})
  SELECT (SELECT count(*)::int FROM work) AS counted,
         (SELECT count(*)::int FROM work WHERE leased) AS leased,
         (SELECT count(*)::int FROM ended WHERE state = 'failed') AS failed,
         (SELECT count(*)::int FROM ended WHERE state = 'dead') AS dead,
         coalesce((SELECT n_live_tup FROM pg_stat_user_tables
                   WHERE schemaname = 'relayops' AND relname = 'delivery_work'), 0)::float8 AS estimated`);

/** Exact up to a bound, then the statistics' estimate, which lags by a second or so. Index: deliveries_unsuccessful. */
export async function sampleBacklog(db: Queryable): Promise<BacklogSample> {
  const { rows } = await db.query<BacklogSample & { counted: number; estimated: number }>(sample([]));
  const { counted, estimated, leased, failed, dead } = rows[0]!;
  return {
    open: counted < EXACT_UP_TO ? counted : Math.max(counted, Math.round(estimated)),
    leased,
    failed,
    dead,
  };
}

export interface BacklogOptions {
  readonly database: Database;
  readonly high: number;
  readonly low: number;
  readonly everyMs: number;
  readonly onSample: (sample: BacklogSample) => void;
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
    const sampled = await sampleBacklog(this.#options.database.requests);
    this.#open = sampled.open;
    if (this.#open >= this.#options.high) this.#full = true;
    else if (this.#open < this.#options.low) this.#full = false;
    this.#options.onSample(sampled);
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
