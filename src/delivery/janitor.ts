import type { Config } from '../config/index.ts';
import { type Database, sqlState, type Transaction } from '../platform/db/database.ts';
import { sleep } from '../shared/abort.ts';
import type { EndpointId } from '../shared/ids.ts';
import { cancelForDeletedEndpoint } from './delivery.sql.ts';
import {
  deleteOldDeliveries,
  deleteOldEvents,
  deleteOldNotes,
  dropWeek,
  ensurePartitions,
  findOldWeeks,
  giveUpLocksSoon,
  hasOpenWork,
  lockWeek,
  type PartitionWeek,
  tryPartitionLock,
  waitPartitionLock,
} from './retention.sql.ts';

/** Something that another feature wants removed in bounded batches. `run` answers how many rows it removed. */
export interface JanitorTask {
  readonly what: string;
  readonly run: (limit: number) => Promise<number>;
}

export interface JanitorDeps {
  readonly database: Database;
  readonly config: Config;
  readonly tasks: readonly JanitorTask[];
  /** After each round, whatever failed in it. */
  readonly onRound?: () => void;
  /** IDs of deleted endpoints, whose open deliveries are to be cancelled. */
  readonly deletedEndpoints: () => Promise<EndpointId[]>;
  readonly onRemoved: (what: string, count: number) => void;
  readonly onError: (error: unknown) => void;
}

const DAYS_AHEAD = 21;
const DAYS_IN_PARTITION = 7;
const LOCK_NOT_AVAILABLE = '55P03';
const UNDEFINED_TABLE = '42P01';
/** Batches of one kind in one round at most, so that every kind gets its turn. */
const BATCHES_A_ROUND = 50;

/**
 * Keeps the tables in shape: partitions ahead of time, retention, cancelled work of deleted endpoints. Any number of processes may run it:
 * partitions are changed under a lock, everything else skips what another has taken.
 */
export class Janitor {
  readonly #deps: JanitorDeps;
  readonly #controller = new AbortController();
  #running: Promise<void> | undefined;

  constructor(deps: JanitorDeps) {
    this.#deps = deps;
  }

  start(): void {
    this.#running ??= this.#loop(this.#controller.signal);
  }

  async stop(): Promise<void> {
    this.#controller.abort();
    await this.#running;
  }

  /** Every task once, each failing for itself. */
  async round(): Promise<void> {
    const { config, database, tasks } = this.#deps;
    const days = config['retention.days'];
    await this.#attempt(() => this.#makePartitions());
    await this.#attempt(() => this.#cancelDeleted());
    await this.#attempt(() => this.#dropWeeks(days));
    // A younger edge than a partition's width, or open deliveries in an old one: then rows go one batch at a time.
    if (days < DAYS_IN_PARTITION || (await this.#hasUndroppable(days))) {
      await this.#batches('deliveries', (limit) => deleteOldDeliveries(database.requests, days, limit));
      await this.#batches('events', (limit) => deleteOldEvents(database.requests, days, limit));
    }
    await this.#batches('notes', (limit) => deleteOldNotes(database.requests, days, limit));
    for (const task of tasks) await this.#batches(task.what, task.run);
    this.#deps.onRound?.();
  }

  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      await this.#attempt(() => this.round());
      await sleep(this.#deps.config['janitor.intervalMs'], signal);
    }
  }

  async #attempt(work: () => Promise<unknown>): Promise<void> {
    try {
      await work();
    } catch (error) {
      this.#deps.onError(error);
    }
  }

  async #makePartitions(): Promise<void> {
    await this.#changePartitions(async (tx) => {
      await ensurePartitions(tx, DAYS_AHEAD);
      return true;
    });
  }

  async #cancelDeleted(): Promise<void> {
    const { database, config, onRemoved } = this.#deps;
    for (const endpointId of await this.#deps.deletedEndpoints()) {
      let cancelled: number;
      do {
        cancelled = await cancelForDeletedEndpoint(database.requests, endpointId, config['retention.batch']);
        if (cancelled > 0) onRemoved('work_of_deleted_endpoints', cancelled);
      } while (cancelled > 0 && !this.#controller.signal.aborted);
    }
  }

  async #dropWeeks(days: number): Promise<void> {
    for (const week of await findOldWeeks(this.#deps.database.requests, days)) {
      if (await this.#dropWeek(week)) this.#deps.onRemoved('partitions', 1);
    }
  }

  /** @returns false when it has to stay: something in it is open, or somebody is at it now, and the next round tries again */
  async #dropWeek(week: PartitionWeek): Promise<boolean> {
    return this.#changePartitions(async (tx) => {
      // The look comes after the lock, as a statement of its own: a replay that reopened something has committed by then.
      await lockWeek(tx, week);
      if (await hasOpenWork(tx, week)) return false;
      await dropWeek(tx, week);
      return true;
    });
  }

  /** @returns what `change` answers; false when another process or a table's lock is in the way */
  async #changePartitions(change: (tx: Transaction) => Promise<boolean>): Promise<boolean> {
    try {
      return await this.#deps.database.transaction(async (tx) => {
        if (!(await tryPartitionLock(tx))) return false;
        await giveUpLocksSoon(tx);
        return change(tx);
      });
    } catch (error) {
      // Somebody is at it, or another process has dropped it already.
      if (sqlState(error) === LOCK_NOT_AVAILABLE || sqlState(error) === UNDEFINED_TABLE) return false;
      throw error;
    }
  }

  async #hasUndroppable(days: number): Promise<boolean> {
    return (await findOldWeeks(this.#deps.database.requests, days)).length > 0;
  }

  async #batches(what: string, run: (limit: number) => Promise<number>): Promise<void> {
    const limit = this.#deps.config['retention.batch'];
    await this.#attempt(async () => {
      for (let batch = 0; batch < BATCHES_A_ROUND && !this.#controller.signal.aborted; batch++) {
        const removed = await run(limit);
        if (removed > 0) this.#deps.onRemoved(what, removed);
        if (removed < limit) return;
      }
    });
  }
}

/** Makes the partitions that acceptance needs now; a process does this before it takes anything. */
export async function preparePartitions(database: Database): Promise<void> {
  await database.transaction(async (tx) => {
    await waitPartitionLock(tx);
    await ensurePartitions(tx, DAYS_AHEAD);
  });
}
