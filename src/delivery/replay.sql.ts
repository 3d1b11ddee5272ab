import type { Queryable } from '../platform/db/database.ts';
import { plainArray, plannedEachTime, prepared } from '../platform/db/sql.ts';
import type { DeliveryId, EndpointId, EventId, JobId, TenantId } from '../shared/ids.ts';

/** What a bulk replay covers. At least one bound besides the states is required: "everything" is never meant by leaving all out. */
export interface ReplayFilter {
  readonly endpointId: EndpointId | null;
  readonly eventType: string | null;
  readonly states: readonly ('failed' | 'dead' | 'cancelled')[];
  readonly reason: string | null;
  readonly fromId: string | null;
  readonly toId: string | null;
}

export interface DeliveryKey {
  readonly event_id: EventId;
  readonly endpoint_id: EndpointId;
}

export interface Reopened extends DeliveryKey {
  readonly delivery_id: DeliveryId;
}

const reopen = prepared(`
  WITH reopened AS (
    UPDATE relayops.deliveries d SET state = 'open', reason = NULL, finished_at = NULL, unsuccessful_at = NULL
    FROM unnest($2::uuid[], $3::uuid[]) AS k (event_id, endpoint_id)
    WHERE d.tenant_id = $1 AND d.event_id = k.event_id AND d.endpoint_id = k.endpoint_id
      AND d.state IN ('failed', 'dead', 'cancelled') AND coalesce(d.reason, '') NOT LIKE 'filter_error:%'
    RETURNING d.delivery_id, d.event_id, d.tenant_id, d.endpoint_id
  ), work AS (
    INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at, attempt_no, prior_attempts)
    SELECT r.delivery_id, r.event_id, r.tenant_id, r.endpoint_id, now(), m.made, m.made
    FROM reopened r CROSS JOIN LATERAL (
      SELECT coalesce(max(a.attempt_number), 0) AS made FROM relayops.delivery_attempts a
      WHERE a.event_id = r.event_id AND a.delivery_id = r.delivery_id) m
  ), log AS (
    INSERT INTO relayops.delivery_replays (event_id, delivery_id, tenant_id, job_id, requested_by)
    SELECT event_id, delivery_id, tenant_id, $4, $5 FROM reopened
  )
  SELECT delivery_id, event_id, endpoint_id FROM reopened`);

/**
 * Returns ended deliveries to pending with a fresh budget of attempts, whose numbers go on (SPEC E2, D3), and records who did it. What
 * is not failed, dead or cancelled any more is left alone. Index: primary keys.
 */
export async function reopenDeliveries(
  db: Queryable,
  tenantId: TenantId,
  keys: readonly DeliveryKey[],
  by: { readonly actor: string; readonly jobId: JobId | null },
): Promise<Reopened[]> {
  const values = [
    tenantId,
    plainArray(keys.map((key) => key.event_id)),
    plainArray(keys.map((key) => key.endpoint_id)),
    by.jobId,
    by.actor,
  ];
  return (await db.query<Reopened>(reopen(values))).rows;
}

const MATCHING = `
  d.tenant_id = $1 AND d.unsuccessful_at IS NOT NULL AND d.unsuccessful_at <= $2::timestamptz
  AND coalesce(d.reason, '') NOT LIKE 'filter_error:%'
  AND ($3::uuid IS NULL OR d.endpoint_id = $3) AND ($4::text IS NULL OR d.event_type = $4)
  AND d.state = ANY($5::text[]) AND ($6::text IS NULL OR d.reason = $6)
  AND ($7::uuid IS NULL OR d.event_id >= $7) AND ($8::uuid IS NULL OR d.event_id < $8)
  AND EXISTS (SELECT 1 FROM relayops.webhook_endpoints e WHERE e.endpoint_id = d.endpoint_id AND e.deleted_at IS NULL)`;

function filterValues(tenantId: TenantId, endedBefore: Date, filter: ReplayFilter): unknown[] {
  const { endpointId, eventType, states, reason, fromId, toId } = filter;
  return [tenantId, endedBefore, endpointId, eventType, [...states], reason, fromId, toId];
}

const count = plannedEachTime(
  `SELECT count(*)::int AS count FROM (SELECT 1 FROM relayops.deliveries d WHERE ${MATCHING} LIMIT $9) m`,
);

/** How many a replay would cover, counted up to `limit`. Index: deliveries_unsuccessful. */
export async function countReplayable(
  db: Queryable,
  tenantId: TenantId,
  before: Date,
  filter: ReplayFilter,
  limit: number,
): Promise<number> {
  return (
    (await db.query<{ count: number }>(count([...filterValues(tenantId, before, filter), limit]))).rows[0]
      ?.count ?? 0
  );
}

const next = plannedEachTime(`
  SELECT d.event_id, d.endpoint_id FROM relayops.deliveries d
  WHERE ${MATCHING} AND ($9::uuid IS NULL OR (d.event_id, d.endpoint_id) > ($9, $10::uuid))
  ORDER BY d.event_id, d.endpoint_id LIMIT $11`);

/** The next deliveries of a job, oldest first. What ends again after the job began is not taken twice. Index: deliveries_unsuccessful. */
export async function nextReplayable(
  db: Queryable,
  job: ReplayJobRow,
  limit: number,
): Promise<DeliveryKey[]> {
  const values = [
    ...filterValues(job.tenant_id, job.created_at, job.filter),
    job.cursor_event_id,
    job.cursor_endpoint_id,
    limit,
  ];
  return (await db.query<DeliveryKey>(next(values))).rows;
}

export interface ReplayJobRow {
  readonly job_id: JobId;
  readonly tenant_id: TenantId;
  readonly filter: ReplayFilter;
  readonly state: 'running' | 'completed' | 'cancelled' | 'failed';
  readonly total: number;
  readonly replayed: number;
  readonly cursor_event_id: EventId | null;
  readonly cursor_endpoint_id: EndpointId | null;
  readonly requested_by: string;
  readonly created_at: Date;
  readonly finished_at: Date | null;
  /** When it was its turn last; null before the first step. */
  readonly stepped_at: Date | null;
  /** Steps that went wrong since the last one that did not. */
  readonly failures: number;
  readonly error: string | null;
}

const insertJob = prepared(`
  INSERT INTO relayops.replay_jobs (job_id, tenant_id, filter, total, requested_by, created_at) VALUES ($1, $2, $3, $4, $5, $6) RETURNING *`);

export async function insertReplayJob(
  db: Queryable,
  job: {
    jobId: JobId;
    tenantId: TenantId;
    filter: ReplayFilter;
    total: number;
    actor: string;
    createdAt: Date;
  },
): Promise<ReplayJobRow> {
  const values = [job.jobId, job.tenantId, JSON.stringify(job.filter), job.total, job.actor, job.createdAt];
  return (await db.query<ReplayJobRow>(insertJob(values))).rows[0]!;
}

const oneJob = prepared(`SELECT * FROM relayops.replay_jobs WHERE tenant_id = $1 AND job_id = $2`);

/** Index: replay_jobs_tenant. */
export async function findReplayJob(
  db: Queryable,
  tenantId: TenantId,
  jobId: JobId,
): Promise<ReplayJobRow | undefined> {
  return (await db.query<ReplayJobRow>(oneJob([tenantId, jobId]))).rows[0];
}

const listJobs = prepared(`
  SELECT * FROM relayops.replay_jobs WHERE tenant_id = $1 AND ($2::uuid IS NULL OR job_id < $2) ORDER BY job_id DESC LIMIT $3`);

/** Newest first. Index: replay_jobs_tenant. */
export async function listReplayJobs(
  db: Queryable,
  tenantId: TenantId,
  after: string | null,
  limit: number,
): Promise<ReplayJobRow[]> {
  return (await db.query<ReplayJobRow>(listJobs([tenantId, after, limit]))).rows;
}

const cancelJob = prepared(`
  UPDATE relayops.replay_jobs SET state = 'cancelled', finished_at = now() WHERE tenant_id = $1 AND job_id = $2 AND state = 'running'`);

export async function cancelReplayJob(db: Queryable, tenantId: TenantId, jobId: JobId): Promise<void> {
  await db.query(cancelJob([tenantId, jobId]));
}

const lockJob = prepared(`
  SELECT * FROM relayops.replay_jobs WHERE state = 'running' ORDER BY stepped_at NULLS FIRST, job_id LIMIT 1 FOR UPDATE SKIP LOCKED`);

/**
 * The running job whose last step is the longest ago and that no other process is stepping, locked for this transaction: jobs take turns,
 * so that neither a large one nor one that fails holds up the others. Index: replay_jobs_running.
 */
export async function lockRunningJob(db: Queryable): Promise<ReplayJobRow | undefined> {
  return (await db.query<ReplayJobRow>(lockJob([]))).rows[0];
}

const moveJob = prepared(`
  UPDATE relayops.replay_jobs
  SET replayed = replayed + $2, cursor_event_id = coalesce($3, cursor_event_id), cursor_endpoint_id = coalesce($4, cursor_endpoint_id),
      state = CASE WHEN $5 THEN 'completed' ELSE state END, finished_at = CASE WHEN $5 THEN now() END,
      stepped_at = clock_timestamp(), failures = 0, error = NULL
  WHERE job_id = $1`);

/** Progress, in the transaction that made it. */
export async function advanceReplayJob(
  db: Queryable,
  jobId: JobId,
  step: { replayed: number; last: DeliveryKey | undefined; done: boolean },
): Promise<void> {
  await db.query(
    moveJob([jobId, step.replayed, step.last?.event_id ?? null, step.last?.endpoint_id ?? null, step.done]),
  );
}

const failStep = prepared(`
  UPDATE relayops.replay_jobs
  SET failures = failures + 1, error = $2, stepped_at = clock_timestamp(),
      state = CASE WHEN failures + 1 >= $3 THEN 'failed' ELSE state END,
      finished_at = CASE WHEN failures + 1 >= $3 THEN now() END
  WHERE job_id = $1 AND state = 'running'`);

/** A step that went wrong, after its transaction was rolled back. After `limit` of them in a row the job has failed. Index: primary key. */
export async function recordFailedStep(
  db: Queryable,
  jobId: JobId,
  error: string,
  limit: number,
): Promise<void> {
  await db.query(failStep([jobId, error, limit]));
}
