import type { Config } from '../config/index.ts';
import { type EndpointDirectory, FilteredEvent, type Route, type RoutingTable } from '../endpoints/index.ts';
import type { DueDelivery } from '../outbox/index.ts';
import { type Database, isTransient, sqlState } from '../platform/db/database.ts';
import type { FilterPool, Verdict } from '../platform/expressions/index.ts';
import { sleep } from '../shared/abort.ts';
import type { Clock } from '../shared/clock.ts';
import type { RelayError } from '../shared/errors.ts';
import { type DeliveryId, type EventId, newId, type TenantId, timeOfId } from '../shared/ids.ts';
import {
  findOriginals,
  findStored,
  insertEvents,
  type NewDelivery,
  type OriginalRow,
  type OutboxRows,
  type RoutedEvent,
} from './accept.sql.ts';
import { AcceptLanes, type Laned } from './accept-lanes.ts';
import { AcceptRoom } from './accept-room.ts';
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
  /** For filters that may take long. */
  readonly filters: Pick<FilterPool, 'judge'>;
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

/** An event that was taken, and is not answered. */
interface Waiting {
  readonly event: IncomingEvent;
  readonly resolve: (result: AcceptResult) => void;
  /** How often its routing turned out to be old. */
  reroutes: number;
}

type Routed = RoutedEvent & Laned & { readonly routes: readonly Route[]; readonly waiting: Waiting };

/** How long a group is tried again while the database is away, before its callers get 503. */
const PATIENCE_MS = 3_000;
const RETRY_PAUSE_MS = 100;
const MAX_REROUTES = 20;

/**
 * Group commit: what arrives while one group is being written makes the next. One group in flight is better than two or three,
 * because the next one grows meanwhile (DESIGN 3). Every caller is answered after the commit of its own event.
 *
 * An event is routed when it comes, so that groups are bounded by the deliveries that they make.
 */
export class Acceptor {
  readonly #deps: AcceptorDeps;
  readonly #lanes: AcceptLanes<Routed>;
  readonly #room: AcceptRoom;
  #routing = 0;
  #routed: (() => void) | undefined;
  #stopped = false;

  constructor(deps: AcceptorDeps) {
    const { config } = deps;
    this.#deps = deps;
    this.#room = new AcceptRoom({
      maxEvents: config['ingest.queueMaxEvents'],
      maxBytes: config['ingest.queueMaxBytes'],
      maxDeliveries: config['ingest.queueMaxDeliveries'],
    });
    const bounds = {
      maxEvents: config['ingest.groupMaxEvents'],
      maxBytes: config['ingest.groupMaxBytes'],
      maxDeliveries: config['ingest.groupMaxDeliveries'],
    };
    this.#lanes = new AcceptLanes(bounds, (group) => this.#settleTimed(group));
  }

  /** Resolves after the commit. Never rejects: a refusal is a value, so that one bad event of a batch fails alone. */
  accept(event: IncomingEvent): Promise<AcceptResult> {
    if (this.#stopped) return Promise.resolve({ ok: false, error: stopping({ retryAfterSeconds: 1 }) });
    if (!this.#room.hasRoom(event.tenantId)) {
      const detail = 'This process has too many events waiting for their commit, in all or of this tenant.';
      return Promise.resolve({ ok: false, error: backlogFull({ detail, retryAfterSeconds: 1 }) });
    }
    return new Promise((resolve) => void this.#enter({ event, resolve, reroutes: 0 }));
  }

  /** Takes nothing more; resolves when everything taken is answered. */
  async stop(): Promise<void> {
    this.#stopped = true;
    // Events whose routing was old are routed again.
    do {
      if (this.#routing > 0) await new Promise<void>((resolve) => (this.#routed = resolve));
      await this.#lanes.idle();
    } while (this.#routing > 0);
  }

  /** Routes an event and queues it. At once when nothing has to be waited for, which is nearly always. */
  #enter(waiting: Waiting): void {
    const place = { tenantId: waiting.event.tenantId, bytes: waiting.event.payload.length, deliveryCount: 0 };
    this.#room.take(place);
    this.#routing += 1;
    const leave = (): void => {
      this.#room.give(place);
      this.#routing -= 1;
      if (this.#routing === 0) this.#routed?.();
    };
    const queue = (routed: Routed): void => {
      this.#room.take(routed);
      this.#lanes.push(routed);
      leave();
    };
    const fail = (error: unknown): void => {
      waiting.resolve({ ok: false, error: error as Error });
      leave();
    };
    try {
      const routed = this.#route(waiting);
      if (routed instanceof Promise) routed.then(queue, fail);
      else queue(routed);
    } catch (error) {
      fail(error);
    }
  }

  async #settleTimed(group: readonly Routed[]): Promise<void> {
    const started = performance.now();
    const report = await this.#settle(group);
    this.#deps.onGroup?.({ ...report, events: group.length, durationMs: performance.now() - started });
  }

  /** Answers everyone in the group, but those that have to be routed again. */
  async #settle(group: readonly Routed[]): Promise<GroupReport> {
    const report = { stored: 0, replayed: 0 };
    for (const routed of group) this.#room.give(routed);
    const { firsts, repeats } = foldRepeats(group);
    const missing: Waiting[] = [];
    await this.#answering(
      firsts.map(({ waiting }) => waiting),
      async () => void missing.push(...(await this.#write(firsts, report))),
    );
    await this.#answering([...missing, ...repeats], (rest) => this.#explain(rest, report));
    return report;
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

  #route(waiting: Waiting): Routed | Promise<Routed> {
    const table = this.#deps.directory.routing(waiting.event.tenantId);
    return table instanceof Promise
      ? table.then((loaded) => this.#routeBy(loaded, waiting))
      : this.#routeBy(table, waiting);
  }

  #routeBy(table: RoutingTable, waiting: Waiting): Routed | Promise<Routed> {
    const { event } = waiting;
    const eventId = newId<EventId>(this.#deps.clock.now());
    const routes = event.onlyTo
      ? [{ endpointId: event.onlyTo, filterError: null }]
      : table.route(
          event.type,
          new FilteredEvent({ id: eventId, type: event.type }, event.payload),
          (filtered, sources) => this.#judgeElsewhere(event.tenantId, filtered, sources),
          event.about,
        );
    const compose = (found: readonly Route[]): Routed => ({
      eventId,
      event,
      tenantId: event.tenantId,
      bytes: event.payload.length,
      deliveryCount: found.length,
      bodyHash: event.idempotencyKey === null ? null : bodyHash(event),
      routingVersion: table.version,
      routes: found,
      waiting,
    });
    return routes instanceof Promise ? routes.then(compose) : compose(routes);
  }

  #judgeElsewhere(
    tenantId: TenantId,
    { event, text }: FilteredEvent,
    sources: readonly string[],
  ): Promise<Verdict[]> {
    return this.#deps.filters.judge(tenantId, { event, payload: text, sources });
  }

  /** Writes the group and answers those that were written. @returns the others */
  async #write(routed: readonly Routed[], report: GroupReport): Promise<Waiting[]> {
    if (routed.length === 0) return [];
    const outbox = this.#deps.outbox?.() ?? null;
    const deliveries = routed.flatMap(deliveriesOf);
    const stored = await this.#insertPatiently(routed, deliveries, outbox);
    if (stored === 'refused') return this.#writeHalves(routed, report);
    report.stored += stored.length;
    const acceptedAt = new Map(stored.map((row) => [row.event_id, row.accepted_at]));
    const due: DueDelivery[] = [];
    const missing: Waiting[] = [];
    for (const { eventId, routes, waiting } of routed) {
      const at = acceptedAt.get(eventId);
      if (at === undefined) {
        missing.push(waiting);
        continue;
      }
      waiting.resolve({
        ok: true,
        accepted: { eventId, acceptedAt: at, deliveries: routes.length, replayed: false },
      });
    }
    for (const delivery of deliveries)
      if (delivery.filterError === null && acceptedAt.has(delivery.eventId)) due.push(delivery);
    if (due.length > 0) this.#deps.onWork(due, outbox);
    return missing;
  }

  /**
   * Inserts, through short absences of the database. A lost answer leaves open whether the commit happened, so the events are
   * looked up before they are written again.
   */
  async #insertPatiently(
    routed: readonly Routed[],
    deliveries: readonly NewDelivery[],
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
        return await insertEvents(
          database.acceptance,
          routed,
          deliveries,
          config['ingest.idempotencyTtlS'],
          outbox,
        );
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
    } else this.#enter(waiting);
  }
}

const UNIQUE_VIOLATION = '23505';

/** A routed event's deliveries, with IDs of its time. */
function deliveriesOf({ eventId, routes }: Routed): NewDelivery[] {
  const atMs = timeOfId(eventId);
  return routes.map(({ endpointId, filterError }) => ({
    deliveryId: newId<DeliveryId>(atMs),
    eventId,
    endpointId,
    filterError,
  }));
}

/** One key twice in a group: the first is written, the others are answered as repeats of it. */
function foldRepeats(group: readonly Routed[]): { firsts: Routed[]; repeats: Waiting[] } {
  const seen = new Set<string>();
  const firsts: Routed[] = [];
  const repeats: Waiting[] = [];
  for (const routed of group) {
    const { tenantId, idempotencyKey } = routed.event;
    const key = idempotencyKey === null ? null : `${tenantId}/${idempotencyKey}`;
    if (key !== null && seen.has(key)) repeats.push(routed.waiting);
    else firsts.push(routed);
    if (key !== null) seen.add(key);
  }
  return { firsts, repeats };
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
