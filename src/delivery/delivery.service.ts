import type { Database } from '../platform/db/database.ts';
import { cursorInvalid, decodeCursor, encodeCursor } from '../platform/http/cursor.ts';
import { momentOf } from '../platform/http/moment.ts';
import type { Page } from '../platform/http/page.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import {
  type DeliveryId,
  type EndpointId,
  type EventId,
  firstIdAt,
  isId,
  type TenantId,
  timeOfId,
} from '../shared/ids.ts';
import { deliveryNotOpen } from './delivery.errors.ts';
import type { Attempt, Delivery, DeliveryListQuery, Stats } from './delivery.schemas.ts';
import {
  type AttemptRow,
  cancelDelivery,
  type DeliveryRow,
  findAttempts,
  findDelivery,
  listDeliveries,
  listOpenDeliveries,
} from './delivery.sql.ts';
import { COUNT_BOUND, tenantStats } from './stats.sql.ts';

/** Looking at deliveries, and cancelling them. */
export class DeliveryService {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** @throws NOT_FOUND for another tenant's delivery as well */
  async get(tenantId: TenantId, deliveryId: string): Promise<Delivery> {
    return toDelivery(await this.row(tenantId, deliveryId));
  }

  /** @throws NOT_FOUND */
  async row(tenantId: TenantId, deliveryId: string): Promise<DeliveryRow> {
    const row = isId(deliveryId)
      ? await findDelivery(this.#database.requests, tenantId, deliveryId as DeliveryId)
      : undefined;
    if (row === undefined) throw routeNotFound();
    return row;
  }

  /** @throws NOT_FOUND */
  async attempts(tenantId: TenantId, deliveryId: string): Promise<Attempt[]> {
    const { event_id, delivery_id } = await this.row(tenantId, deliveryId);
    return (await findAttempts(this.#database.requests, tenantId, event_id, delivery_id)).map(toAttempt);
  }

  /** Ended and all: newest event first. Pending and in progress: the next due first. */
  async list(tenantId: TenantId, query: DeliveryListQuery): Promise<Page<Delivery>> {
    const { limit, state } = query;
    // An ID that cannot exist matches nothing, like one of another tenant.
    if ([query.endpointId, query.eventId].some((id) => id !== undefined && !isId(id)))
      return { data: [], nextCursor: null };
    const open = state === 'pending' || state === 'in_progress';
    const rows = open ? await this.#listOpen(tenantId, query) : await this.#listFacts(tenantId, query);
    const shown = rows.slice(0, limit);
    const last = shown.at(-1);
    const more = rows.length > limit && last !== undefined;
    return {
      data: shown.map(toDelivery),
      nextCursor: !more
        ? null
        : encodeCursor(open ? [last.due_us ?? '', last.delivery_id] : [last.event_id, last.endpoint_id]),
    };
  }

  /** @throws NOT_FOUND, DELIVERY_NOT_OPEN */
  async cancel(tenantId: TenantId, deliveryId: string, actor: string): Promise<Delivery> {
    const { delivery_id } = await this.row(tenantId, deliveryId);
    const done = await cancelDelivery(
      this.#database.requests,
      tenantId,
      delivery_id,
      `cancelled by ${actor}`,
    );
    if (!done) throw deliveryNotOpen();
    return this.get(tenantId, deliveryId);
  }

  async stats(tenantId: TenantId, minutes: number, endpointId: string | undefined): Promise<Stats> {
    if (endpointId !== undefined && !isId(endpointId)) throw routeNotFound();
    const row = await tenantStats(
      this.#database.requests,
      tenantId,
      minutes,
      (endpointId ?? null) as EndpointId | null,
    );
    return {
      window: { from: row.from_at.toISOString(), to: row.to_at.toISOString() },
      events: bounded(row.events),
      deliveries: row.states,
      deliveriesExact: row.counted <= COUNT_BOUND,
      open: bounded(row.open),
      oldestDueAt: row.oldest_due_at?.toISOString() ?? null,
    };
  }

  async #listFacts(tenantId: TenantId, query: DeliveryListQuery): Promise<DeliveryRow[]> {
    const { state } = query;
    const filter = {
      endpointId: (query.endpointId ?? null) as EndpointId | null,
      eventId: (query.eventId ?? null) as EventId | null,
      type: query.type ?? null,
      state: state === 'pending' || state === 'in_progress' ? null : (state ?? null),
      fromId: query.from === undefined ? null : firstIdAt(momentOf(query.from, 'querystring/from')),
      toId: query.to === undefined ? null : firstIdAt(momentOf(query.to, 'querystring/to')),
    };
    return listDeliveries(
      this.#database.requests,
      tenantId,
      filter,
      cursorOf(query.cursor, isId),
      query.limit + 1,
    );
  }

  async #listOpen(tenantId: TenantId, query: DeliveryListQuery): Promise<DeliveryRow[]> {
    const filter = {
      endpointId: (query.endpointId ?? null) as EndpointId | null,
      type: query.type ?? null,
      leased: query.state === 'in_progress',
    };
    const after = cursorOf(query.cursor, (text) => /^\d{1,17}$/.test(text));
    return listOpenDeliveries(this.#database.requests, tenantId, filter, after, query.limit + 1);
  }
}

function cursorOf(cursor: string | undefined, isFirst: (text: string) => boolean): [string, string] | null {
  if (cursor === undefined) return null;
  const [first, second] = decodeCursor(cursor, 2) as [string, string];
  if (!isFirst(first) || !isId(second)) throw cursorInvalid();
  return [first, second];
}

function bounded(count: number): { count: number; exact: boolean } {
  return { count: Math.min(count, COUNT_BOUND), exact: count <= COUNT_BOUND };
}

function toDelivery(row: DeliveryRow): Delivery {
  return {
    deliveryId: row.delivery_id,
    eventId: row.event_id,
    endpointId: row.endpoint_id,
    eventType: row.event_type,
    state: row.state,
    reason: row.reason,
    createdAt: new Date(timeOfId(row.delivery_id)).toISOString(),
    finishedAt: row.finished_at?.toISOString() ?? null,
    nextAttemptAt: row.state === 'pending' ? (row.due_at?.toISOString() ?? null) : null,
    attempts: row.attempt_no,
  };
}

function toAttempt(row: AttemptRow): Attempt {
  return {
    attemptNumber: row.attempt_number,
    outcome: row.outcome as Attempt['outcome'],
    startedAt: row.started_at?.toISOString() ?? null,
    durationMs: row.duration_ms,
    httpStatus: row.http_status,
    errorCode: row.error_code,
    errorDetail: row.error_detail,
    responseHeaders: row.response_headers,
    responseBody: row.response_body?.toString('utf8') ?? null,
    nextAttemptAt: row.next_attempt_at?.toISOString() ?? null,
    worker: row.worker,
    recordedAt: row.recorded_at.toISOString(),
    lateResults: (row.late_results ?? []).map((late) => ({
      outcome: late.outcome,
      httpStatus: late.http_status,
      errorCode: late.error_code,
      worker: late.worker,
      observedAt: new Date(late.observed_at).toISOString(),
    })),
  };
}
