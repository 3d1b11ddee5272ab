import type { Config } from '../config/index.ts';
import {
  type EndpointDirectory,
  type HealthChange,
  type HealthRules,
  type ObservedHealth,
  observeHealth,
} from '../endpoints/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';
import type { FinishedAttempt } from './finish.sql.ts';

export interface HealthWatchDeps {
  readonly database: Database;
  readonly directory: EndpointDirectory;
  readonly config: Config;
  /** Every process is to know of it. */
  readonly onChange: (change: HealthChange, endpointId: EndpointId) => void;
  readonly onError: (error: unknown) => void;
}

interface Tally {
  readonly tenantId: TenantId;
  succeeded: boolean;
  failures: number;
  outages: number;
}

const TOO_MANY_REQUESTS = 429;

/**
 * Tells the database how endpoints do: every failure, and the successes of endpoints that are known to be failing, so that a healthy one
 * costs nothing. What comes while one report is written makes the next. A report that fails is lost: the next attempts make up for it.
 */
export class HealthWatch {
  readonly #deps: HealthWatchDeps;
  readonly #rules: HealthRules;
  #waiting = new Map<EndpointId, Tally>();
  #running: Promise<void> | undefined;

  constructor(deps: HealthWatchDeps) {
    const { config } = deps;
    this.#deps = deps;
    this.#rules = {
      failuresToOpen: config['health.failuresToOpen'],
      minFailingMs: config['health.minFailingMs'],
      openMs: config['health.openMs'],
      openCapMs: config['health.openCapMs'],
      disableAfterS: config['health.disableAfterS'],
    };
  }

  /** Committed results. */
  saw(batch: readonly FinishedAttempt[]): void {
    for (const { tenantId, endpointId, attempt } of batch) {
      if (attempt === null || attempt.outcome === 'unknown' || attempt.httpStatus === TOO_MANY_REQUESTS)
        continue;
      const succeeded = attempt.outcome === 'success';
      if (succeeded && !this.#deps.directory.isFailing(endpointId) && !this.#waiting.has(endpointId))
        continue;
      const tally = this.#waiting.get(endpointId) ?? { tenantId, succeeded: false, failures: 0, outages: 0 };
      if (succeeded) tally.succeeded = true;
      else {
        tally.failures += 1;
        if (attempt.outcome === 'retryable') tally.outages += 1;
      }
      this.#waiting.set(endpointId, tally);
    }
    if (this.#waiting.size > 0) this.#running ??= this.#drain();
  }

  /** Resolves when everything seen so far is written or failed to be, or when the signal aborts: a report is not worth a stop that hangs. */
  async idle(limit: AbortSignal): Promise<void> {
    if (this.#running === undefined || limit.aborted) return;
    const aborted = new Promise<void>((resolve) =>
      limit.addEventListener('abort', () => resolve(), { once: true }),
    );
    await Promise.race([this.#running, aborted]);
  }

  async #drain(): Promise<void> {
    while (this.#waiting.size > 0) {
      const observed: ObservedHealth[] = Array.from(this.#waiting, ([endpointId, tally]) => ({
        endpointId,
        ...tally,
      }));
      this.#waiting = new Map();
      try {
        await this.#report(observed.sort((a, b) => (a.endpointId < b.endpointId ? -1 : 1)));
      } catch (error) {
        this.#deps.onError(error);
      }
    }
    this.#running = undefined;
  }

  async #report(observed: readonly ObservedHealth[]): Promise<void> {
    const { database, directory, onChange } = this.#deps;
    const changes = await observeHealth(database.delivery, observed, this.#rules);
    // What this process believes of them is older than what it has just written.
    for (const { endpointId } of observed) directory.forgetTarget(endpointId);
    for (const { endpoint_id: endpointId, change } of changes) onChange(change, endpointId);
  }
}
