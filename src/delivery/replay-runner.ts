import type { Config } from '../config/index.ts';
import { type Database, isTransient, sqlState, type Transaction } from '../platform/db/database.ts';
import { Wakeup } from '../shared/abort.ts';
import type { Transport } from '../transport/port.ts';
import {
  advanceReplayJob,
  lockRunningJob,
  nextReplayable,
  recordFailedStep,
  type Reopened,
  reopenDeliveries,
  type ReplayJobRow,
} from './replay.sql.ts';

export interface ReplayRunnerDeps {
  readonly database: Database;
  readonly transport: Transport;
  readonly config: Config;
  readonly onError: (error: unknown) => void;
}

/** Pause between looks for jobs that another process may have been given. */
const IDLE_MS = 1_000;
/** Steps of one job that may go wrong in a row before it has failed. */
const MAX_FAILURES = 5;
const MAX_ERROR_LENGTH = 500;
const STATEMENT_TIMEOUT = '57014';

/**
 * Steps replay jobs. A step reopens a bounded batch and moves the job's cursor in one transaction, so that a job goes on after a
 * crash where it was, and any number of processes may run this. Jobs take turns. A cancel takes effect before the next step.
 */
export class ReplayRunner {
  readonly #deps: ReplayRunnerDeps;
  readonly #controller = new AbortController();
  readonly #wakeup = new Wakeup();
  #running: Promise<void> | undefined;

  constructor(deps: ReplayRunnerDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#running ??= this.#loop(this.#controller.signal);
  }

  async stop(): Promise<void> {
    this.#controller.abort();
    await this.#running;
  }

  /** A job was made in this process. */
  wake(): void {
    this.#wakeup.ring();
  }

  /** One step of one job. @returns whether there was one @throws what went wrong in it, after it was counted against the job */
  async step(): Promise<boolean> {
    let job: ReplayJobRow | undefined;
    let reopened: Reopened[];
    try {
      reopened = await this.#deps.database.transaction(async (tx) => {
        job = await lockRunningJob(tx);
        return job === undefined ? [] : this.#stepIn(tx, job);
      });
    } catch (error) {
      if (job !== undefined && countsAsFailure(error))
        await recordFailedStep(this.#deps.database.requests, job.job_id, textOf(error), MAX_FAILURES);
      throw error;
    }
    if (job === undefined) return false;
    const endpointIds = new Set(reopened.map((row) => row.endpoint_id));
    this.#deps.transport.announce(Array.from(endpointIds, (endpointId) => ({ endpointId, inMs: 0 })));
    return true;
  }

  async #stepIn(tx: Transaction, job: ReplayJobRow): Promise<Reopened[]> {
    const limit = this.#deps.config['replay.batch'];
    const keys = await nextReplayable(tx, job, limit);
    const by = { actor: job.requested_by, jobId: job.job_id };
    const reopened = keys.length === 0 ? [] : await reopenDeliveries(tx, job.tenant_id, keys, by);
    await this.#deps.transport.enqueue(
      tx,
      reopened.map((row) => ({ deliveryId: row.delivery_id, endpointId: row.endpoint_id })),
    );
    await advanceReplayJob(tx, job.job_id, {
      replayed: reopened.length,
      last: keys.at(-1),
      done: keys.length < limit,
    });
    return reopened;
  }

  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      let worked = false;
      try {
        worked = await this.step();
      } catch (error) {
        this.#deps.onError(error);
      }
      if (!worked) await this.#wakeup.wait(IDLE_MS, signal);
    }
  }
}

/** A database that is away is not the job's fault. A step that takes too long is: it would take as long the next time. */
function countsAsFailure(error: unknown): boolean {
  return !isTransient(error) || sqlState(error) === STATEMENT_TIMEOUT;
}

function textOf(error: unknown): string {
  return (error instanceof Error ? error.message : String(error)).slice(0, MAX_ERROR_LENGTH);
}
