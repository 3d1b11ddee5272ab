import type { Config } from '../config/index.ts';
import type { Database } from '../platform/db/database.ts';
import { sleep, Wakeup } from '../shared/abort.ts';
import { firstIdAt, timeOfId } from '../shared/ids.ts';
import { Pace } from '../shared/pace.ts';
import type { DueDelivery, MessageBroker, OutgoingMessage, PublishFailure } from '../transport/port.ts';
import {
  claimMessages,
  type OutboxRow,
  pruneMessages,
  releaseMessages,
  removeMessages,
} from './outbox.sql.ts';

export interface OutboxPublisherDeps {
  readonly database: Database;
  readonly broker: MessageBroker;
  readonly config: Config;
  /** Name of this process in claims. */
  readonly instance: string;
  readonly onPublished?: (report: PublishedReport) => void;
  readonly onError: (error: unknown) => void;
}

export interface PublishedReport {
  readonly messages: readonly OutgoingMessage[];
  readonly failed: ReadonlyMap<string, PublishFailure>;
  readonly durationMs: number;
}

const FIRST_ID = firstIdAt(0);
/** How far below the newest row that was seen a claim starts: rows of slow transactions and of processes with other clocks come in late. */
const FLOOR_MARGIN_MS = 2_000;
/** A claim from the very beginning finds what came later still, and rows whose publisher vanished: paced, up to a pause of one claim time. */
const FULL_LOOK_MS = 1_000;
/** Confirmed rows are gathered for this long: nobody waits for their removal, and each costs a statement. */
const REMOVE_AFTER_MS = 50;
/** How long the broker has to be away first: a connection that is being made is no reason. */
const PRUNE_AFTER_MS = 3_000;
/** While the broker is away: rows looked at by one statement, how long it goes on, and how often. */
const PRUNE_PAGE = 2_000;
const PRUNE_MS = 200;
const PRUNE_EVERY_MS = 1_000;
const FAILURE_PAUSE_MS = 200;
/** Messages on their way to the broker; above it a batch waits for the ones before it. */
const MAX_UNCONFIRMED = 4_000;
/** Messages handed over by the accepting process that wait to be sent; above it rows are left for whoever claims them. */
const MAX_OFFERED = 4_000;

/**
 * Brings outbox rows to the broker (SPEC F2). Any number of processes run one. A row is removed after the broker's confirm, or when its message is not needed (`skip`), and not before; what the
 * broker returned, refused or did not confirm in time is given back and tried again, for ever. Rows that this process itself has just
 * committed come without a claim of their own: they were written as claimed by it.
 */
export class OutboxPublisher {
  readonly #deps: OutboxPublisherDeps;
  readonly #controller = new AbortController();
  readonly #wakeup = new Wakeup();
  readonly #removals: string[] = [];
  readonly #fullLookPace: Pace;
  #offered: OutgoingMessage[] = [];
  #unconfirmed = 0;
  #inFlight = new Set<Promise<void>>();
  #floorId = FIRST_ID;
  #newestMs = 0;
  #lookAtMs = 0;
  #fullLookAtMs = 0;
  #pausedUntilMs = 0;
  #connectedAtMs = performance.now();
  #pruneAtMs = 0;
  #prunedId = FIRST_ID;
  #running: Promise<void> | undefined;
  #removing: Promise<void> | undefined;

  constructor(deps: OutboxPublisherDeps) {
    this.#deps = deps;
    this.#fullLookPace = new Pace(FULL_LOOK_MS, deps.config['outbox.claimMs']);
  }

  start(): void {
    this.#running ??= this.#loop(this.#controller.signal);
  }

  /** Takes no more; resolves when what was sent is confirmed and removed, or was given up. */
  async stop(): Promise<void> {
    this.#controller.abort();
    await this.#running;
    while (this.#inFlight.size > 0 || this.#removing) await Promise.all([...this.#inFlight, this.#removing]);
  }

  /** How rows that are about to be committed in this process are to be marked; null: left for whoever claims them. */
  claim(): { readonly publisher: string; readonly ms: number } | null {
    const { broker, config, instance } = this.#deps;
    const isReady =
      this.#running !== undefined &&
      !this.#controller.signal.aborted &&
      broker.isConnected &&
      this.#offered.length < MAX_OFFERED;
    return isReady ? { publisher: instance, ms: config['outbox.claimMs'] } : null;
  }

  /** First messages of deliveries whose rows were committed as claimed by this process. */
  offer(deliveries: readonly DueDelivery[]): void {
    for (const { deliveryId, endpointId } of deliveries)
      this.#offered.push({ id: deliveryId, deliveryId, endpointId, queue: 'ready', inMs: 0, context: null });
    this.#wakeup.ring();
  }

  /** First messages that are not needed any more: their deliveries were claimed without. */
  skip(deliveries: readonly DueDelivery[]): void {
    this.#discard(deliveries.map(({ deliveryId }) => deliveryId));
  }

  /** Rows were committed for whoever claims them. */
  poke(): void {
    this.#wakeup.ring();
  }

  async #loop(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      try {
        if (!(await this.#step())) await this.#wakeup.wait(this.#idleMs(), signal);
      } catch (error) {
        this.#deps.onError(error);
        await sleep(FAILURE_PAUSE_MS, signal);
      }
      while (this.#unconfirmed >= MAX_UNCONFIRMED) await Promise.race(this.#inFlight);
    }
    // What was offered and is not on its way yet is committed: another publisher takes it.
    await this.#giveBack(this.#offered.splice(0).map((message) => message.id));
  }

  /** Sends the next batch. @returns whether there may be more */
  async #step(): Promise<boolean> {
    const { broker, config } = this.#deps;
    const limit = config['outbox.batch'];
    if (broker.isConnected) this.#connectedAtMs = performance.now();
    if (!broker.isConnected || performance.now() < this.#pausedUntilMs) {
      await this.#giveBack(this.#offered.splice(0).map((message) => message.id));
      if (!broker.isConnected && performance.now() - this.#connectedAtMs > PRUNE_AFTER_MS)
        await this.#prune();
      return false;
    }
    const offered = this.#offered.splice(0, limit);
    if (offered.length > 0) this.#send(offered);
    if (this.#offered.length > 0) return true;
    if (offered.length > 0 && performance.now() < this.#lookAtMs) return false;
    const rows = await this.#claim(limit);
    if (rows.length > 0) this.#send(rows.map(toMessage));
    return rows.length === limit;
  }

  /** Works through the rows in the order of time: page by page, then from a little below the newest that was seen, now and then from the beginning. */
  async #claim(limit: number): Promise<OutboxRow[]> {
    const { database, config, instance } = this.#deps;
    const started = performance.now();
    const isFull = started >= this.#fullLookAtMs;
    const from = { floorId: isFull ? FIRST_ID : this.#floorId, limit };
    const by = { publisher: instance, ms: config['outbox.claimMs'] };
    const rows = await claimMessages(database.delivery, from, by);
    const now = performance.now();
    // Own rows alone do not put off the next look: what workers and others wrote waits no longer under load.
    this.#lookAtMs = now + (rows.length === limit ? 0 : config['outbox.pollMs']);
    if (isFull) this.#fullLookAtMs = now + this.#fullLookPace.pauseAfter(now - started);
    const last = rows.at(-1);
    if (last) this.#newestMs = Math.max(this.#newestMs, timeOfId(last.outbox_id));
    this.#floorId =
      last && rows.length === limit ? last.outbox_id : firstIdAt(this.#newestMs - FLOOR_MARGIN_MS);
    return rows;
  }

  /**
   * While the broker is away workers deliver from the database, and the messages of what has ended pile up: without them the outbox holds no more than
   * what is open, and intake need not close because of it.
   */
  async #prune(): Promise<void> {
    const started = performance.now();
    if (started < this.#pruneAtMs) return;
    let seen: number;
    do {
      const page = await pruneMessages(this.#deps.database.delivery, this.#prunedId, PRUNE_PAGE);
      seen = page.seen;
      this.#prunedId = seen === PRUNE_PAGE ? (page.last_id ?? FIRST_ID) : FIRST_ID;
    } while (seen === PRUNE_PAGE && performance.now() - started < PRUNE_MS);
    this.#pruneAtMs = performance.now() + PRUNE_EVERY_MS;
  }

  #send(messages: OutgoingMessage[]): void {
    this.#unconfirmed += messages.length;
    const sending = this.#publish(messages)
      .catch(this.#deps.onError)
      .then(() => {
        this.#unconfirmed -= messages.length;
        this.#inFlight.delete(sending);
      });
    this.#inFlight.add(sending);
  }

  async #publish(messages: readonly OutgoingMessage[]): Promise<void> {
    const started = performance.now();
    const failed = await this.#deps.broker.publish(messages);
    this.#deps.onPublished?.({ messages, failed, durationMs: performance.now() - started });
    const confirmed = failed.size === 0 ? messages : messages.filter((message) => !failed.has(message.id));
    this.#discard(confirmed.map(({ id }) => id));
    if (failed.size === 0) return;
    this.#pausedUntilMs = performance.now() + FAILURE_PAUSE_MS;
    await this.#giveBack([...failed.keys()]);
  }

  #discard(ids: readonly string[]): void {
    for (const id of ids) this.#removals.push(id);
    if (this.#removals.length > 0)
      this.#removing ??= this.#remove().finally(() => (this.#removing = undefined));
  }

  /** What is done with while one removal runs makes the next. */
  async #remove(): Promise<void> {
    try {
      while (this.#removals.length > 0) {
        await sleep(REMOVE_AFTER_MS, this.#controller.signal);
        // A row that cannot be removed now is published again after its claim: a duplicate, which the claim of the delivery absorbs.
        await removeMessages(this.#deps.database.delivery, this.#removals.splice(0));
      }
    } catch (error) {
      this.#deps.onError(error);
    }
  }

  async #giveBack(ids: readonly string[]): Promise<void> {
    if (ids.length === 0) return;
    this.#lookAtMs = 0;
    this.#fullLookAtMs = 0;
    try {
      await releaseMessages(this.#deps.database.delivery, ids, this.#deps.instance);
    } catch (error) {
      // Their claims run out by themselves.
      this.#deps.onError(error);
    }
  }

  #idleMs(): number {
    const now = performance.now();
    const untilPauseEnds = this.#pausedUntilMs > now ? this.#pausedUntilMs - now : Infinity;
    return Math.max(1, Math.min(this.#deps.config['outbox.pollMs'], untilPauseEnds));
  }
}

function toMessage(row: OutboxRow): OutgoingMessage {
  return {
    id: row.outbox_id,
    deliveryId: row.delivery_id,
    endpointId: row.endpoint_id,
    queue: row.queue,
    inMs: row.in_ms,
    context: row.context,
  };
}
