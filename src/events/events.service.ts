import type { Config } from '../config/index.ts';
import type { Coordination } from '../coordination/port.ts';
import { endpointExists } from '../endpoints/index.ts';
import { type Database, isTransient } from '../platform/db/database.ts';
import { momentOf } from '../platform/http/moment.ts';
import { idAfter, type Page, toPage } from '../platform/http/page.ts';
import { internalError, routeNotFound, serviceUnavailable } from '../platform/http/problem.ts';
import { RelayError } from '../shared/errors.ts';
import { TURN_MS } from '../shared/loop-turns.ts';
import { type EndpointId, firstIdAt, type EventId, isId, type TenantId } from '../shared/ids.ts';
import type { Admission } from './admission.ts';
import type { Accepted, Acceptor, AcceptResult } from './acceptor.ts';
import { backlogFull, batchTooLarge, eventInvalid, rateLimited } from './events.errors.ts';
import type { Event, EventListQuery } from './event.schemas.ts';
import { type EventRow, findEvent, findPayload, listEvents } from './event.sql.ts';
import type { IncomingEvent } from './incoming.ts';
import { checkSize, typeProblem } from './native.ts';

/** A tenant's own ingest limits; null takes the configured default. */
export interface IngestLimits {
  readonly ingestRate: number | null;
  readonly ingestBurst: number | null;
}

interface TenantRate {
  /** Events a second. */
  readonly rate: number;
  readonly burst: number;
}

export interface EventsDeps {
  readonly database: Database;
  readonly acceptor: Acceptor;
  readonly coordination: Coordination;
  readonly config: Config;
  readonly limitsOf: (tenantId: TenantId) => Promise<IngestLimits> | IngestLimits;
  readonly admission: Pick<Admission, 'refusal'>;
  /** Told the error code of every event that was not taken. */
  readonly onRefused: (code: string) => void;
}

const BACKLOG_RETRY_S = 5;

/** Taking events in and looking them up. */
export class EventsService {
  readonly #deps: EventsDeps;

  constructor(deps: EventsDeps) {
    this.#deps = deps;
  }

  get config(): Config {
    return this.#deps.config;
  }

  /** Refuses before anything is parsed when there is no room. @throws BACKLOG_FULL, BATCH_TOO_LARGE, RATE_LIMITED */
  async admit(tenantId: TenantId, events: number): Promise<void> {
    const { admission, coordination, config } = this.#deps;
    const refusal = admission.refusal(tenantId);
    if (refusal !== null) throw backlogFull({ detail: refusal.detail, retryAfterSeconds: BACKLOG_RETRY_S });
    if (events > config['ingest.maxBatchEvents']) {
      throw batchTooLarge({
        detail: `${events} events; at most ${config['ingest.maxBatchEvents']} are allowed.`,
      });
    }
    const known = this.#rateOf(tenantId);
    const { rate, burst } = known instanceof Promise ? await known : known;
    if (events > burst) {
      throw batchTooLarge({
        detail: `${events} events; this tenant may send at most ${burst} at once (its burst).`,
      });
    }
    const taken = await coordination.take(`tenant:${tenantId}`, events, { ratePerSecond: rate, burst });
    if (!taken.ok)
      throw rateLimited({
        detail: `At most ${rate} events per second.`,
        retryAfterSeconds: taken.retryAfterMs / 1000,
      });
  }

  #rateOf(tenantId: TenantId): TenantRate | Promise<TenantRate> {
    const { config, limitsOf } = this.#deps;
    const toRate = ({ ingestRate, ingestBurst }: IngestLimits): TenantRate => {
      const rate = ingestRate ?? config['ingest.ratePerSecond'];
      return { rate, burst: ingestBurst ?? Math.max(rate, config['ingest.rateBurst']) };
    };
    const limits = limitsOf(tenantId);
    return limits instanceof Promise ? limits.then(toRate) : toRate(limits);
  }

  /** For metrics: an event was not taken. */
  noteRefusal(error: Error): void {
    if (error instanceof RelayError) this.#deps.onRefused(error.code);
    else this.#deps.onRefused((isTransient(error) ? serviceUnavailable() : internalError()).code);
  }

  /** @throws the refusal of this event */
  async accept(event: IncomingEvent): Promise<Accepted> {
    const result = await this.#deps.acceptor.accept(event);
    if (!result.ok) throw result.error;
    await this.#chargeFanOut(event.tenantId, [result]);
    return result.accepted;
  }

  /**
   * A test event to one endpoint, the whole way through acceptance and delivery.
   * @throws NOT_FOUND, EVENT_INVALID
   */
  async sendTest(
    tenantId: TenantId,
    endpointId: string,
    body: { readonly type?: string; readonly payload?: unknown },
  ): Promise<Accepted> {
    const { database, config } = this.#deps;
    if (!isId(endpointId) || !(await endpointExists(database.requests, tenantId, endpointId)))
      throw routeNotFound();
    const type = body.type ?? 'relayops.test';
    const problem = typeProblem(type);
    if (problem) throw eventInvalid({ fields: [problem] });
    const payload = testPayload(body.payload);
    checkSize(payload.length, config['ingest.maxPayloadBytes']);
    await this.admit(tenantId, 1);
    return this.accept({
      tenantId,
      type,
      contentType: 'application/json',
      payload,
      idempotencyKey: null,
      format: 'test',
      attributes: null,
      traceparent: null,
      occurredAt: null,
      onlyTo: endpointId as EndpointId,
    });
  }

  /**
   * Events of one tenant, each on its own: one refusal leaves its neighbours alone. The order is kept.
   * @param turn resolves when the event loop may be held again: routing a batch may take longer than a moment
   */
  async acceptAll(events: readonly IncomingEvent[], turn: () => Promise<void>): Promise<AcceptResult[]> {
    const accepting: Promise<AcceptResult>[] = [];
    let turnEnds = performance.now() + TURN_MS;
    for (const event of events) {
      if (performance.now() > turnEnds) {
        await turn();
        turnEnds = performance.now() + TURN_MS;
      }
      accepting.push(this.#deps.acceptor.accept(event));
    }
    const results = await Promise.all(accepting);
    if (events[0]) await this.#chargeFanOut(events[0].tenantId, results);
    return results;
  }

  /**
   * An event counts as many as it has deliveries. The first was taken when the tenant was admitted; the others are known once the
   * event is routed, and become a debt that the next events wait for.
   */
  async #chargeFanOut(tenantId: TenantId, results: readonly AcceptResult[]): Promise<void> {
    let more = 0;
    for (const result of results)
      if (result.ok && !result.accepted.replayed) more += Math.max(0, (result.accepted.deliveries ?? 0) - 1);
    if (more === 0) return;
    const { rate, burst } = await this.#rateOf(tenantId);
    await this.#deps.coordination.charge(`tenant:${tenantId}`, more, { ratePerSecond: rate, burst });
  }

  /** @throws NOT_FOUND for another tenant's event as well */
  async get(tenantId: TenantId, eventId: string): Promise<Event> {
    const row = isId(eventId)
      ? await findEvent(this.#deps.database.requests, tenantId, eventId as EventId)
      : undefined;
    if (row === undefined) throw routeNotFound();
    return toEvent(row);
  }

  /** @throws NOT_FOUND */
  async payload(tenantId: TenantId, eventId: string): Promise<{ payload: Buffer; contentType: string }> {
    const row = isId(eventId)
      ? await findPayload(this.#deps.database.requests, tenantId, eventId as EventId)
      : undefined;
    if (row === undefined) throw routeNotFound();
    return { payload: row.payload, contentType: row.content_type };
  }

  async list(tenantId: TenantId, query: EventListQuery): Promise<Page<Event>> {
    const after = idAfter(query);
    const to = query.to === undefined ? null : firstIdAt(momentOf(query.to, 'querystring/to'));
    const filter = {
      type: query.type ?? null,
      fromId: query.from === undefined ? null : firstIdAt(momentOf(query.from, 'querystring/from')),
      beforeId: after !== null && to !== null ? (after < to ? after : to) : (after ?? to),
    };
    const rows = await listEvents(this.#deps.database.requests, tenantId, filter, query.limit + 1);
    return toPage(rows, query.limit, (row) => row.event_id, toEvent);
  }
}

/** @throws EVENT_INVALID */
function testPayload(payload: unknown): Buffer {
  try {
    return Buffer.from(JSON.stringify(payload ?? { message: 'This is a test event from RelayOps.' }));
  } catch (error) {
    // JSON.parse goes down without a limit, JSON.stringify calls itself.
    if (!(error instanceof RangeError)) throw error;
    throw eventInvalid({ fields: [{ field: 'payload', reason: 'is nested too deep' }], cause: error });
  }
}

function toEvent(row: EventRow): Event {
  return {
    eventId: row.event_id,
    type: row.type,
    contentType: row.content_type,
    payloadBytes: row.payload_bytes,
    idempotencyKey: row.idempotency_key,
    format: row.format,
    attributes: row.attributes,
    traceparent: row.traceparent,
    occurredAt: row.occurred_at?.toISOString() ?? null,
    acceptedAt: row.accepted_at.toISOString(),
    deliveryCount: row.delivery_count,
  };
}
