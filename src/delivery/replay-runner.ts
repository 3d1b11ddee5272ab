import type { Config } from '../config/index.ts';
import type { Database, Transaction } from '../platform/db/database.ts';
import { Wakeup } from '../shared/abort.ts';
import type { Transport } from '../transport/port.ts';
import {
  advanceReplayJob,
  lockRunningJob,
  nextReplayable,
  type Reopened,
  reopenDeliveries,
} from './replay.sql.ts';

export interface ReplayRunnerDeps {
  readonly database: Database;
  readonly transport: Transport;
  readonly config: Config;
  readonly onError: (error: unknown) => void;
}

/** Pause between looks for jobs that another process may have been given. */
const IDLE_MS = 1_000;

/**
 * Steps replay jobs. A step reopens a bounded batch and moves the job's cursor in one transaction, so that a job goes on after a
 * crash where it was, and any number of processes may run this. A cancel takes effect before the next step.
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

  /** One step of one job. @returns whether there was one */
  async step(): Promise<boolean> {
    const reopened = await this.#deps.database.transaction((tx) => this.#stepIn(tx));
    if (reopened === null) return false;
    const endpointIds = new Set(reopened.map((row) => row.endpoint_id));
    this.#deps.transport.announce(Array.from(endpointIds, (endpointId) => ({ endpointId, inMs: 0 })));
    return true;
  }

  async #stepIn(tx: Transaction): Promise<Reopened[] | null> {
    const job = await lockRunningJob(tx);
    if (job === undefined) return null;
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
