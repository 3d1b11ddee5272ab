import { endpointExists } from '../endpoints/index.ts';
import type { Database } from '../platform/db/database.ts';
import { momentOf } from '../platform/http/moment.ts';
import { idAfter, type Page, toPage } from '../platform/http/page.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import type { Clock } from '../shared/clock.ts';
import { type EndpointId, firstIdAt, isId, type JobId, newId, type TenantId } from '../shared/ids.ts';
import type { Transport } from '../transport/port.ts';
import { deliveryNotReplayable, replayScopeMissing } from './delivery.errors.ts';
import type { ReplayBody, ReplayJob } from './delivery.schemas.ts';
import type { DeliveryService } from './delivery.service.ts';
import {
  cancelReplayJob,
  countReplayable,
  findReplayJob,
  insertReplayJob,
  listReplayJobs,
  reopenDeliveries,
  type ReplayFilter,
  type ReplayJobRow,
} from './replay.sql.ts';
import { COUNT_BOUND } from './stats.sql.ts';

export interface ReplayDeps {
  readonly database: Database;
  readonly deliveries: DeliveryService;
  readonly transport: Transport;
  readonly clock: Clock;
  /** A job was made: step it now. */
  readonly wake: () => void;
}

/** The largest job. What lies beyond is left for the next one, and its total says so. */
const MAX_JOB = 10_000_000;

/** Who asks. */
export interface Requester {
  readonly tenantId: TenantId;
  readonly actor: string;
}

/** Sending ended deliveries again: one at once, many as a durable job. */
export class ReplayService {
  readonly #deps: ReplayDeps;

  constructor(deps: ReplayDeps) {
    this.#deps = deps;
  }

  /** @throws NOT_FOUND, DELIVERY_NOT_REPLAYABLE */
  async one({ tenantId, actor }: Requester, deliveryId: string): Promise<void> {
    const { database, deliveries, transport } = this.#deps;
    const row = await deliveries.row(tenantId, deliveryId);
    if (!(await endpointExists(database.requests, tenantId, row.endpoint_id)))
      throw deliveryNotReplayable({ detail: 'Its endpoint is deleted.' });
    const reopened = await database.transaction(async (tx) => {
      const done = await reopenDeliveries(tx, tenantId, [row], { actor, jobId: null });
      await transport.enqueue(
        tx,
        done.map((key) => ({ deliveryId: key.delivery_id, endpointId: key.endpoint_id })),
      );
      return done;
    });
    if (reopened.length === 0)
      throw deliveryNotReplayable({ detail: `It is ${row.state}${row.reason ? ` (${row.reason})` : ''}.` });
    transport.announce([{ endpointId: row.endpoint_id, inMs: 0 }]);
  }

  /** What a job would cover, counted up to a bound. @throws REPLAY_SCOPE_MISSING */
  async count(tenantId: TenantId, body: ReplayBody): Promise<{ count: number; exact: boolean }> {
    const now = new Date(this.#deps.clock.now());
    const count = await countReplayable(
      this.#deps.database.requests,
      tenantId,
      now,
      toFilter(body),
      COUNT_BOUND + 1,
    );
    return { count: Math.min(count, COUNT_BOUND), exact: count <= COUNT_BOUND };
  }

  /** @throws REPLAY_SCOPE_MISSING */
  async start({ tenantId, actor }: Requester, body: ReplayBody): Promise<ReplayJob> {
    const { database, clock } = this.#deps;
    const filter = toFilter(body);
    const row = await database.transaction(async (tx) => {
      // The database's clock, since "ended before" compares with times that it wrote.
      const { rows } = await tx.query<{ now: Date }>({ text: 'SELECT now() AS now' });
      const createdAt = rows[0]!.now;
      const total = await countReplayable(tx, tenantId, createdAt, filter, MAX_JOB);
      return insertReplayJob(tx, {
        jobId: newId<JobId>(clock.now()),
        tenantId,
        filter,
        total,
        actor,
        createdAt,
      });
    });
    this.#deps.wake();
    return toJob(row);
  }

  /** @throws NOT_FOUND */
  async job(tenantId: TenantId, jobId: string): Promise<ReplayJob> {
    const row = isId(jobId)
      ? await findReplayJob(this.#deps.database.requests, tenantId, jobId as JobId)
      : undefined;
    if (row === undefined) throw routeNotFound();
    return toJob(row);
  }

  /** Idempotent. What was reopened stays reopened. @throws NOT_FOUND */
  async cancel(tenantId: TenantId, jobId: string): Promise<ReplayJob> {
    await this.job(tenantId, jobId);
    await cancelReplayJob(this.#deps.database.requests, tenantId, jobId as JobId);
    return this.job(tenantId, jobId);
  }

  async jobs(tenantId: TenantId, query: { limit: number; cursor?: string }): Promise<Page<ReplayJob>> {
    const rows = await listReplayJobs(
      this.#deps.database.requests,
      tenantId,
      idAfter(query),
      query.limit + 1,
    );
    return toPage(rows, query.limit, (row) => row.job_id, toJob);
  }
}

function toFilter(body: ReplayBody): ReplayFilter {
  const { endpointId, eventType, from, to } = body;
  if (endpointId === undefined && eventType === undefined && from === undefined && to === undefined)
    throw replayScopeMissing();
  if (endpointId !== undefined && !isId(endpointId)) throw routeNotFound();
  return {
    endpointId: (endpointId ?? null) as EndpointId | null,
    eventType: eventType ?? null,
    states: body.states ?? ['failed', 'dead'],
    reason: body.reason ?? null,
    fromId: from === undefined ? null : firstIdAt(momentOf(from, 'body/from')),
    toId: to === undefined ? null : firstIdAt(momentOf(to, 'body/to')),
  };
}

function toJob(row: ReplayJobRow): ReplayJob {
  return {
    jobId: row.job_id,
    state: row.state,
    total: row.total,
    replayed: row.replayed,
    error: row.state === 'failed' ? row.error : null,
    requestedBy: row.requested_by,
    createdAt: row.created_at.toISOString(),
    finishedAt: row.finished_at?.toISOString() ?? null,
  };
}
