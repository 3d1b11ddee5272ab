import type { Database } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { EventId, TenantId } from '../shared/ids.ts';

/** Bytes held by one request; `release` gives their share of the budget back. */
export interface LoadedPayload {
  readonly bytes: Buffer;
  release(): void;
}

interface Wanted {
  readonly tenantId: TenantId;
  readonly eventId: EventId;
  readonly payloadBytes: number;
}

const selectPayload = prepared(`SELECT payload FROM relayops.events WHERE tenant_id = $1 AND event_id = $2`);

/**
 * Reads large payloads one by one within a memory budget, so that many deliveries of large events wait for each other instead of
 * filling the process. A payload larger than the whole budget is let through alone.
 */
export class PayloadLoader {
  readonly #database: Database;
  readonly #budgetBytes: number;
  readonly #queue: (() => void)[] = [];
  #usedBytes = 0;

  constructor(database: Database, budgetBytes: number) {
    this.#database = database;
    this.#budgetBytes = budgetBytes;
  }

  /** @throws when the event is gone or the database is away: nothing was sent then */
  async load(wanted: Wanted, signal: AbortSignal): Promise<LoadedPayload> {
    while (this.#usedBytes > 0 && this.#usedBytes + wanted.payloadBytes > this.#budgetBytes) {
      await new Promise<void>((resolve) => this.#queue.push(resolve));
      signal.throwIfAborted();
    }
    this.#usedBytes += wanted.payloadBytes;
    const release = (): void => {
      this.#usedBytes -= wanted.payloadBytes;
      // All wake: each looks for itself whether it fits now, in the order in which they came.
      for (const waiter of this.#queue.splice(0)) waiter();
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
}
