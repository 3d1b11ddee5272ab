import type { Config } from '../config/index.ts';
import type { EndpointDirectory, Route } from '../endpoints/index.ts';
import type { DueDelivery } from '../outbox/index.ts';
import { type Database, isTransient, sqlState } from '../platform/db/database.ts';
import { MAX_FILTERED_BYTES, parseForExpressions } from '../platform/expressions/index.ts';
import { sleep } from '../shared/abort.ts';
import type { Clock } from '../shared/clock.ts';
import type { RelayError } from '../shared/errors.ts';
import { type DeliveryId, type EventId, newId, timeOfId } from '../shared/ids.ts';
import {
  findOriginals,
  findStored,
  insertEvents,
  type OriginalRow,
  type OutboxRows,
  type RoutedEvent,
} from './accept.sql.ts';
import { acceptanceUncertain, backlogFull, idempotencyConflict, stopping } from './events.errors.ts';
import { bodyHash, type IncomingEvent } from './incoming.ts';

/** The answer to one event. A repeat gets the very same one; only `replayed` tells them apart. */
export interface Accepted {
  readonly eventId: EventId;
  readonly acceptedAt: Date;
  /** Deliveries that the event caused; null when its original has left by retention. */
  readonly deliveries: number | null;
  readonly replayed: boolean;
}

export type AcceptResult =
  | { readonly ok: true; readonly accepted: Accepted }
  | { readonly ok: false; readonly error: RelayError | Error };

export interface AcceptorDeps {
  readonly database: Database;
  readonly directory: EndpointDirectory;
  readonly config: Config;
  readonly clock: Clock;
  /** On a broker transport: how outbox rows are to be marked. Null when none are written. */
  readonly outbox: (() => OutboxRows) | null;
  /** Called after the commit with the deliveries that are due now, and how their outbox rows were marked. */
  readonly onWork: (deliveries: readonly DueDelivery[], outbox: OutboxRows | null) => void;
  readonly onGroup?: (report: GroupReport & { readonly events: number; readonly durationMs: number }) => void;
}

/** What became of a group. */
interface GroupReport {
  stored: number;
  replayed: number;
}

interface Waiting {
  readonly event: IncomingEvent;
  readonly resolve: (result: AcceptResult) => void;
  /** How often its routing turned out to be old. */
  reroutes: number;
}

type Routed = RoutedEvent & { readonly waiting: Waiting };

/** How long a group is tried again while the database is away, before its callers get 503. */
const PATIENCE_MS = 3_000;
const RETRY_PAUSE_MS = 100;
/** One event to more endpoints than this is a statement of its own. */
const MAX_DELIVERIES_A_STATEMENT = 10_000;
const MAX_REROUTES = 20;

/**
 * Group commit: what arrives while one group is being written makes the next. One group in flight is better than two or three,
 * because the next one grows meanwhile (DESIGN 3). Every caller is answered after the commit of its own event.
 */
export class Acceptor {
  readonly #deps: AcceptorDeps;
  #queue: Waiting[] = [];
  #queuedBytes = 0;
  #running: Promise<void> | undefined;
  #stopped = false;

  constructor(deps: AcceptorDeps) {
    this.#deps = deps;
  }

  /** Resolves after the commit. Never rejects: a refusal is a value, so that one bad event of a batch fails alone. */
  accept(event: IncomingEvent): Promise<AcceptResult> {
    const { config } = this.#deps;
    if (this.#stopped) return Promise.resolve({ ok: false, error: stopping({ retryAfterSeconds: 1 }) });
    if (
      this.#queue.length >= config['ingest.queueMaxEvents'] ||
      this.#queuedBytes >= config['ingest.queueMaxBytes']
    ) {
      const detail = 'This process has too many events waiting for their commit.';
      return Promise.resolve({ ok: false, error: backlogFull({ detail, retryAfterSeconds: 1 }) });
    }
    return new Promise((resolve) => {
      this.#enqueue({ event, resolve, reroutes: 0 });
    });
  }

  /** Takes nothing more; resolves when everything taken is answered. */
  async stop(): Promise<void> {
    this.#stopped = true;
    await this.#running;
  }

  #enqueue(waiting: Waiting): void {
    this.#queue.push(waiting);
    this.#queuedBytes += waiting.event.payload.length;
    this.#running ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.#drain());
  }

  async #drain(): Promise<void> {
    while (this.#queue.length > 0) {
      const group = this.#takeGroup();
      const started = performance.now();
      const report = await this.#settle(group);
      this.#deps.onGroup?.({ ...report, events: group.length, durationMs: performance.now() - started });
    }
    this.#running = undefined;
  }

  #takeGroup(): Waiting[] {
    const { config } = this.#deps;
    let bytes = 0;
    let count = 0;
    while (count < this.#queue.length && count < config['ingest.groupMaxEvents']) {
      bytes += this.#queue[count]!.event.payload.length;
      if (count > 0 && bytes > config['ingest.groupMaxBytes']) break;
      count += 1;
    }
    const group = this.#queue.splice(0, count);
    for (const waiting of group) this.#queuedBytes -= waiting.event.payload.length;
    return group;
  }

  /** Answers everyone in the group. */
  async #settle(group: readonly Waiting[]): Promise<GroupReport> {
    const report = { stored: 0, replayed: 0 };
    const { firsts, repeats } = foldRepeats(group);
    const missing = await this.#routeAndWrite(firsts, report);
    await this.#answering([...missing, ...repeats], (rest) => this.#explain(rest, report));
    return report;
  }

  /**
   * Routes and writes in runs of bounded size: events to thousands of endpoints would otherwise make one statement of millions of rows.
   * @returns those that were not written
   */
  async #routeAndWrite(firsts: readonly Waiting[], report: GroupReport): Promise<Waiting[]> {
    const missing: Waiting[] = [];
    let run: Routed[] = [];
    let deliveries = 0;
    const flush = async (): Promise<void> => {
      const routed = run;
      run = [];
      deliveries = 0;
      const waiting = routed.map((event) => event.waiting);
      await this.#answering(waiting, async () => void missing.push(...(await this.#write(routed, report))));
    };
    for (const waiting of firsts) {
      await this.#answering([waiting], async () => {
        const routed = await this.#route(waiting);
        if (run.length > 0 && deliveries + routed.deliveries.length > MAX_DELIVERIES_A_STATEMENT)
          await flush();
        run.push(routed);
        deliveries += routed.deliveries.length;
      });
    }
    await flush();
    return missing;
  }

  /** Whoever this concerns gets the error, and nobody else. */
  async #answering(
    waiting: readonly Waiting[],
    work: (waiting: readonly Waiting[]) => Promise<void>,
  ): Promise<void> {
    try {
      await work(waiting);
    } catch (error) {
      for (const { resolve } of waiting) resolve({ ok: false, error: error as Error });
    }
  }

  async #route(waiting: Waiting): Promise<Routed> {
    const { event } = waiting;
    const table = await this.#deps.directory.routing(event.tenantId);
    const eventId = newId<EventId>(this.#deps.clock.now());
    const routes = routesOf(event, eventId, (scope) => table.route(event.type, scope, event.about));
    return {
      eventId,
      event,
      bodyHash: event.idempotencyKey === null ? null : bodyHash(event),
      routingVersion: table.version,
      deliveries: routes.map((route) => ({ ...route, deliveryId: newId<DeliveryId>(timeOfId(eventId)) })),
      waiting,
    };
  }

  /** Writes the group and answers those that were written. @returns the others */
  async #write(routed: readonly Routed[], report: GroupReport): Promise<Waiting[]> {
    if (routed.length === 0) return [];
    const outbox = this.#deps.outbox?.() ?? null;
    const stored = await this.#insertPatiently(routed, outbox);
    if (stored === 'refused') return this.#writeHalves(routed, report);
    report.stored += stored.length;
    const acceptedAt = new Map(stored.map((row) => [row.event_id, row.accepted_at]));
    const due: DueDelivery[] = [];
    const missing: Waiting[] = [];
    for (const { eventId, deliveries, waiting } of routed) {
      const at = acceptedAt.get(eventId);
      if (at === undefined) {
        missing.push(waiting);
        continue;
      }
      for (const delivery of deliveries) if (delivery.filterError === null) due.push(delivery);
      waiting.resolve({
        ok: true,
        accepted: { eventId, acceptedAt: at, deliveries: deliveries.length, replayed: false },
      });
    }
    if (due.length > 0) this.#deps.onWork(due, outbox);
    return missing;
  }

  /**
   * Inserts, through short absences of the database. A lost answer leaves open whether the commit happened, so the events are
   * looked up before they are written again.
   */
  async #insertPatiently(
    routed: readonly Routed[],
    outbox: OutboxRows | null,
  ): Promise<{ event_id: EventId; accepted_at: Date }[] | 'refused'> {
    const { database, config, clock } = this.#deps;
    const deadlineMs = clock.now() + PATIENCE_MS;
    let maybeStored = false;
    for (;;) {
      try {
        if (maybeStored) {
          const stored = await findStored(database.delivery, routed);
          if (stored.length > 0) return stored;
        }
        return await insertEvents(database.acceptance, routed, config['ingest.idempotencyTtlS'], outbox);
      } catch (error) {
        // The first try committed after all, between our look-up and our second try.
        const conflict = maybeStored && sqlState(error) === UNIQUE_VIOLATION;
        if (!conflict && !isTransient(error)) {
          if (routed.length > 1) return 'refused';
          throw error;
        }
        maybeStored = true;
        if (clock.now() >= deadlineMs) throw acceptanceUncertain({ retryAfterSeconds: 2, cause: error });
        await sleep(RETRY_PAUSE_MS);
      }
    }
  }

  /** The database refused some row: halves until it stands alone and fails one caller (DESIGN 3). */
  async #writeHalves(routed: readonly Routed[], report: GroupReport): Promise<Waiting[]> {
    const middle = routed.length >> 1;
    const missing: Waiting[] = [];
    for (const half of [routed.slice(0, middle), routed.slice(middle)]) {
      const waiting = half.map((event) => event.waiting);
      await this.#answering(waiting, async () => void missing.push(...(await this.#write(half, report))));
    }
    return missing;
  }

  /** Those that were not written: their key is taken, or their routing was old and they go round again. */
  async #explain(missing: readonly Waiting[], report: GroupReport): Promise<void> {
    if (missing.length === 0) return;
    const keyed = missing.flatMap(({ event }) =>
      event.idempotencyKey === null ? [] : [{ tenantId: event.tenantId, key: event.idempotencyKey }],
    );
    const rows = keyed.length === 0 ? [] : await findOriginals(this.#deps.database.delivery, keyed);
    const originals = new Map(rows.map((row) => [`${row.tenant_id}/${row.key}`, row]));
    for (const waiting of missing) {
      const original = originals.get(`${waiting.event.tenantId}/${waiting.event.idempotencyKey}`);
      if (original === undefined) this.#goRoundAgain(waiting);
      else {
        const answer = answerRepeat(waiting.event, original);
        if (answer.ok) report.replayed += 1;
        waiting.resolve(answer);
      }
    }
  }

  #goRoundAgain(waiting: Waiting): void {
    this.#deps.directory.forgetRouting(waiting.event.tenantId);
    waiting.reroutes += 1;
    if (waiting.reroutes > MAX_REROUTES) {
      const detail = "The tenant's subscriptions change faster than events can be routed.";
      waiting.resolve({ ok: false, error: backlogFull({ detail, retryAfterSeconds: 1 }) });
    } else this.#enqueue(waiting);
  }
}

const UNIQUE_VIOLATION = '23505';

/** One key twice in a group: the first is written, the others are answered as repeats of it. */
function foldRepeats(group: readonly Waiting[]): { firsts: Waiting[]; repeats: Waiting[] } {
  const seen = new Set<string>();
  const firsts: Waiting[] = [];
  const repeats: Waiting[] = [];
  for (const waiting of group) {
    const { tenantId, idempotencyKey } = waiting.event;
    const key = idempotencyKey === null ? null : `${tenantId}/${idempotencyKey}`;
    if (key !== null && seen.has(key)) repeats.push(waiting);
    else firsts.push(waiting);
    if (key !== null) seen.add(key);
  }
  return { firsts, repeats };
}

function routesOf(
  event: IncomingEvent,
  eventId: EventId,
  route: (scope: () => { event: { id: string; type: string }; payload: unknown }) => Route[],
): Route[] {
  if (event.onlyTo) return [{ endpointId: event.onlyTo, filterError: null }];
  return route(() => ({ event: { id: eventId, type: event.type }, payload: parsedPayload(event) }));
}

/** Null for what is not JSON, or nested deeper than the stack: a filter that looks into it then fails visibly. */
function parsedPayload(event: IncomingEvent): unknown {
  if (event.payload.length > MAX_FILTERED_BYTES) return null;
  try {
    return parseForExpressions(event.payload.toString('utf8'));
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof RangeError) return null;
    throw error;
  }
}

function answerRepeat(event: IncomingEvent, original: OriginalRow): AcceptResult {
  if (!bodyHash(event).equals(original.body_hash)) {
    const detail = `The key ${JSON.stringify(event.idempotencyKey)} belongs to event ${original.event_id}, which has another body.`;
    return {
      ok: false,
      error: idempotencyConflict({ detail, extra: { originalEventId: original.event_id } }),
    };
  }
  const acceptedAt = original.accepted_at ?? new Date(timeOfId(original.event_id));
  return {
    ok: true,
    accepted: { eventId: original.event_id, acceptedAt, deliveries: original.delivery_count, replayed: true },
  };
}
