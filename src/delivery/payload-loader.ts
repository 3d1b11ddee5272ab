import type { Database } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { EventId, TenantId } from '../shared/ids.ts';

/** Bytes held by one request; `release` gives their share of the budget back, once. */
export interface LoadedPayload {
  readonly bytes: Buffer;
  release(): void;
}

interface Wanted {
  readonly tenantId: TenantId;
  readonly eventId: EventId;
  readonly payloadBytes: number;
}

interface Waiting {
  readonly bytes: number;
  /** true: it may load now; false: it gave up. */
  readonly admit: (admitted: boolean) => void;
}

const selectPayload = prepared(`SELECT payload FROM relayops.events WHERE tenant_id = $1 AND event_id = $2`);

/**
 * Reads large payloads one by one within a memory budget, so that many deliveries of large events wait for each other instead of
 * filling the process. First come, first served; one larger than the whole budget is let through alone. A wait ends at its
 * deadline, because the delivery's lease goes on running.
 */
export class PayloadLoader {
  readonly #database: Database;
  readonly #budgetBytes: number;
  #queue: Waiting[] = [];
  #usedBytes = 0;
  #stopped = false;

  constructor(database: Database, budgetBytes: number) {
    this.#database = database;
    this.#budgetBytes = budgetBytes;
  }

  /**
   * @param waitMs how long it may wait for its turn
   * @returns null when its turn did not come in time
   * @throws when the event is gone or the database is away: nothing was sent then
   */
  async load(wanted: Wanted, waitMs: number): Promise<LoadedPayload | null> {
    if (!(await this.#turn(wanted.payloadBytes, waitMs))) return null;
    let held = true;
    const release = (): void => {
      if (!held) return;
      held = false;
      this.#usedBytes -= wanted.payloadBytes;
      this.#serve();
    };
    try {
      // Index: primary key of events.
      const { rows } = await this.#database.delivery.query<{ payload: Buffer }>(
        selectPayload([wanted.tenantId, wanted.eventId]),
      );
      const bytes = rows[0]?.payload;
      if (bytes === undefined) throw new Error(`event ${wanted.eventId} has no payload any more`);
      return { bytes, release };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** Sends everybody away who waits, now and later. */
  stop(): void {
    this.#stopped = true;
    for (const waiting of this.#queue.splice(0)) waiting.admit(false);
  }

  #turn(bytes: number, waitMs: number): Promise<boolean> {
    if (this.#stopped || waitMs <= 0) return Promise.resolve(false);
    return new Promise((resolve) => {
      const timer = setTimeout(() => {
        this.#queue = this.#queue.filter((other) => other !== waiting);
        resolve(false);
        // It may have stood before others that fit.
        this.#serve();
      }, waitMs);
      const waiting: Waiting = {
        bytes,
        admit: (admitted) => {
          clearTimeout(timer);
          resolve(admitted);
        },
      };
      this.#queue.push(waiting);
      this.#serve();
    });
  }

  #serve(): void {
    for (let head = this.#queue[0]; head !== undefined && this.#fits(head.bytes); head = this.#queue[0]) {
      this.#queue.shift();
      this.#usedBytes += head.bytes;
      head.admit(true);
    }
  }

  #fits(bytes: number): boolean {
    return this.#usedBytes === 0 || this.#usedBytes + bytes <= this.#budgetBytes;
  }
}
