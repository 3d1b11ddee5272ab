import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import { loadConfig } from '../config/index.ts';
import { firstIdAt, type JobId, newId, type TenantId } from '../shared/ids.ts';
import { createTenant } from '../tenants/index.ts';
import type { DueWork, Transport } from '../transport/port.ts';
import { ReplayRunner } from './replay-runner.ts';
import { findReplayJob, insertReplayJob, type ReplayFilter, type ReplayJobRow } from './replay.sql.ts';

const FILTER: ReplayFilter = {
  endpointId: null,
  eventType: 'a.b',
  states: ['dead'],
  reason: null,
  fromId: null,
  toId: null,
};
/** No UUID, so that every step's query is refused. */
const BROKEN: ReplayFilter = { ...FILTER, fromId: 'x' };
const BATCH = 2;

let test: TestDatabase;
let tenantId: TenantId;
let runner: ReplayRunner;
let announced: DueWork[];

beforeAll(async () => void (test = await testDatabase()));
afterAll(() => test.close());
beforeEach(async () => {
  announced = [];
  tenantId = await createTenant(test.database.requests, { name: 'Test' });
  const transport = {
    enqueue: async () => undefined,
    announce: (work: readonly DueWork[]) => void announced.push(...work),
  } as unknown as Transport;
  const config = loadConfig({}, { 'replay.batch': BATCH });
  runner = new ReplayRunner({ database: test.database, transport, config, onError: () => undefined });
});

const newJob = async (filter: ReplayFilter): Promise<JobId> => {
  const order = { tenantId, filter, total: 0, actor: 'test', createdAt: new Date() };
  const job = await insertReplayJob(test.database.requests, { ...order, jobId: newId(Date.now()) });
  return job.job_id;
};
const look = async (jobId: JobId): Promise<ReplayJobRow> =>
  (await findReplayJob(test.database.requests, tenantId, jobId))!;

/** So many dead deliveries of one endpoint. */
async function seedDead(count: number): Promise<void> {
  const endpointId = newId(Date.now());
  const db = test.database.requests;
  await db.query(
    `INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url) VALUES ($1, $2, 'https://example.com')`,
    [endpointId, tenantId],
  );
  await db.query(
    `INSERT INTO relayops.deliveries (tenant_id, event_id, endpoint_id, delivery_id, event_type, state, finished_at, unsuccessful_at)
     SELECT $1, id, $2, gen_random_uuid(), 'a.b', 'dead', now() - interval '1 s', now() - interval '1 s' FROM unnest($3::uuid[]) AS id`,
    [tenantId, endpointId, Array.from({ length: count }, (_, n) => firstIdAt(Date.now() + n))],
  );
}

it('jobs take turns, and one whose steps go wrong does not hold up the others', async () => {
  await seedDead(2 * BATCH);
  const bad = await newJob(BROKEN);
  const good = await newJob(FILTER);
  await expect(runner.step()).rejects.toThrow('uuid');
  expect(await runner.step()).toBe(true);
  expect(await look(good)).toMatchObject({ state: 'running', replayed: BATCH });
  await expect(runner.step()).rejects.toThrow('uuid');
  expect(await runner.step()).toBe(true);
  expect(await look(good)).toMatchObject({ replayed: 2 * BATCH, failures: 0, error: null });
  expect(await look(bad)).toMatchObject({ state: 'running', failures: 2 });
  expect(announced).toHaveLength(2);
  await test.database.requests.query(
    `UPDATE relayops.replay_jobs SET state = 'cancelled', finished_at = now()`,
  );
});

it('a job has failed after five steps in a row that went wrong, and says why', async () => {
  const bad = await newJob(BROKEN);
  for (let step = 1; step <= 5; step += 1) await expect(runner.step()).rejects.toThrow('uuid');
  const job = await look(bad);
  expect(job).toMatchObject({ state: 'failed', failures: 5, replayed: 0 });
  expect(job.error).toMatch(/invalid input syntax for type uuid/);
  expect(job.finished_at).toBeInstanceOf(Date);
  expect(await runner.step()).toBe(false);
});

it('a database that is away is not counted against the job', async () => {
  const jobId = await newJob(FILTER);
  const away = Object.assign(new Error('terminating connection'), { code: '57P01' });
  const transport = {
    enqueue: () => Promise.reject(away),
    announce: () => undefined,
  } as unknown as Transport;
  const config = loadConfig({});
  const other = new ReplayRunner({ database: test.database, transport, config, onError: () => undefined });
  await expect(other.step()).rejects.toBe(away);
  expect(await look(jobId)).toMatchObject({ state: 'running', failures: 0 });
  // A step that goes well forgets the failures before it.
  await test.database.requests.query('UPDATE relayops.replay_jobs SET failures = 4 WHERE job_id = $1', [
    jobId,
  ]);
  expect(await runner.step()).toBe(true);
  expect(await look(jobId)).toMatchObject({ state: 'completed', failures: 0 });
});
