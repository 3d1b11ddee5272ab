import pg from 'pg';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { ReplayJob } from '../../src/delivery/delivery.schemas.ts';
import type { SimulatedReceiver } from '../../src/simulator/index.ts';
import { Relay } from '../support/relay.ts';
import type { Page, RelayClient } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

let relay: Relay;

beforeAll(async () => {
  relay = await Relay.start();
});
afterAll(() => relay.close());

/** An endpoint with so many dead deliveries, whose receiver has been repaired. */
async function withDead(
  api: RelayClient,
  receiver: SimulatedReceiver,
  count: number,
): Promise<{ endpointId: string; type: string }> {
  const type = `${receiver.name}.one`;
  receiver.configure({ behaviour: { status: 500 } });
  const { endpointId } = await api.endpoint(receiver.url, type, { retry: { maxAttempts: 1 } });
  await api.sendMany(type, count);
  await api.untilSettled();
  receiver.configure({ behaviour: {} });
  return { endpointId, type };
}

const untilDone = (api: RelayClient, jobId: string): Promise<ReplayJob> =>
  until(
    'job done',
    () => api.ok<ReplayJob>('GET', `/v1/replays/${jobId}`),
    ({ state }) => state !== 'running',
  );

describe('one delivery (SPEC E2)', () => {
  it('that is dead goes back to pending with new attempts, whose numbers go on, and it is known who asked', async () => {
    const receiver = relay.receiver('one');
    receiver.configure({ behaviour: { status: '500,500,500,500,200' } });
    await relay.api.endpoint(receiver.url, 'one.one', { retry: { maxAttempts: 2 } });
    const { eventId } = await relay.api.send('one.one');
    const { deliveryId } = await relay.api.untilEnded(eventId);
    await relay.api.ok('POST', `/v1/deliveries/${deliveryId}/replay`);
    expect(await relay.api.untilEnded(eventId)).toMatchObject({ state: 'dead' });
    const reopened = await relay.api.call('POST', `/v1/deliveries/${deliveryId}/replay`);
    expect(reopened).toMatchObject({ status: 202, body: { deliveryId, reason: null, finishedAt: null } });
    expect(await relay.api.untilEnded(eventId)).toMatchObject({ state: 'succeeded', reason: null });
    const attempts = await relay.api.attempts(deliveryId);
    expect(attempts.map(({ attemptNumber, httpStatus }) => [attemptNumber, httpStatus])).toEqual([
      [1, 500],
      [2, 500],
      [3, 500],
      [4, 500],
      [5, 200],
    ]);
    expect(receiver.requests().map(({ headers }) => headers['x-relayops-attempt'])).toEqual([
      '1',
      '2',
      '3',
      '4',
      '5',
    ]);
    expect(receiver.summary()).toMatchObject({ uniqueDeliveries: 1, changedBodies: 0 });
    const replays = await relay.sql<{ requested_by: string }>(
      'SELECT requested_by FROM relayops.delivery_replays WHERE delivery_id = $1',
      deliveryId,
    );
    expect(replays.map((row) => row.requested_by)).toEqual([
      expect.stringMatching(/^key:/),
      expect.stringMatching(/^key:/),
    ]);
  });

  it('that has succeeded, or is open, is not replayed', async () => {
    const receiver = relay.receiver('not');
    const { endpointId } = await relay.api.endpoint(receiver.url, 'not.one');
    const { deliveryId } = await relay.api.untilEnded((await relay.api.send('not.one')).eventId);
    await relay.api.ok('POST', `/v1/endpoints/${endpointId}/pause`);
    const open = await relay.api.deliveryOf((await relay.api.send('not.one')).eventId);
    for (const id of [deliveryId, open.deliveryId])
      expect(await relay.api.call('POST', `/v1/deliveries/${id}/replay`)).toMatchObject({
        status: 409,
        body: { code: 'DELIVERY_NOT_REPLAYABLE' },
      });
    await relay.api.ok('POST', `/v1/deliveries/${open.deliveryId}/cancel`);
    expect(receiver.summary().requests).toBe(1);
  });

  it('asked for twenty times at once is reopened once', async () => {
    const receiver = relay.receiver('twenty');
    await withDead(relay.api, receiver, 1);
    const [dead] = await relay.api.deliveries({ type: 'twenty.one' });
    const answers = await Promise.all(
      Array.from({ length: 20 }, () => relay.api.call('POST', `/v1/deliveries/${dead!.deliveryId}/replay`)),
    );
    expect(answers.filter(({ status }) => status === 202)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 409)).toHaveLength(19);
    await relay.api.untilSettled();
    expect(receiver.summary()).toMatchObject({ requests: 2, succeededDeliveries: 1 });
  });
});

describe('many deliveries', () => {
  it('are counted by a dry run, which changes nothing', async () => {
    const { endpointId, type } = await withDead(relay.api, relay.receiver('dry'), 25);
    const count = (filter: object) => relay.api.ok('POST', '/v1/replays', { ...filter, dryRun: true });
    expect(await count({ endpointId })).toEqual({ dryRun: true, count: 25, exact: true });
    expect(await count({ eventType: type, states: ['dead'] })).toMatchObject({ count: 25 });
    expect(await count({ endpointId, states: ['failed', 'cancelled'] })).toMatchObject({ count: 0 });
    expect(await count({ endpointId, reason: 'attempts_exhausted' })).toMatchObject({ count: 25 });
    expect(await count({ endpointId, reason: 'gone' })).toMatchObject({ count: 0 });
    expect(await count({ endpointId, to: new Date(0).toISOString() })).toMatchObject({ count: 0 });
    expect(await relay.api.deliveries({ endpointId, state: 'dead' })).toHaveLength(25);
    expect((await relay.api.ok<Page<ReplayJob>>('GET', '/v1/replays')).data).toEqual([]);
  });

  it('are never meant by saying nothing', async () => {
    for (const body of [{}, { states: ['dead'] }, { dryRun: true }])
      expect(await relay.api.call('POST', '/v1/replays', body)).toMatchObject({
        status: 400,
        body: { code: 'REPLAY_SCOPE_MISSING' },
      });
  });

  it('by a filter are sent again, each once, and the others are left alone', async () => {
    const [mine, other] = [relay.receiver('mine'), relay.receiver('other')];
    const { endpointId } = await withDead(relay.api, mine, 12);
    await withDead(relay.api, other, 3);
    const job = await relay.api.ok<ReplayJob>('POST', '/v1/replays', { endpointId });
    expect(job).toMatchObject({ state: 'running', total: 12, replayed: 0 });
    expect(job.requestedBy).toMatch(/^key:/);
    expect(await untilDone(relay.api, job.jobId)).toMatchObject({
      state: 'completed',
      total: 12,
      replayed: 12,
    });
    await relay.api.untilSettled();
    expect(mine.summary()).toMatchObject({ requests: 24, succeededDeliveries: 12 });
    expect(other.summary()).toMatchObject({ requests: 3, succeededDeliveries: 0 });
    expect(await relay.count('delivery_replays', 'job_id = $1', job.jobId)).toBe(12);
  });

  it('of an endpoint since a time are sent again', async () => {
    const receiver = relay.receiver('since');
    const { endpointId, type } = await withDead(relay.api, receiver, 4);
    const [newest] = await relay.api.deliveries({ endpointId });
    const since = new Date(Date.parse(newest!.createdAt) + 1).toISOString();
    receiver.configure({ behaviour: { status: 500 } });
    await relay.api.sendMany(type, 3);
    await relay.api.untilSettled();
    receiver.configure({ behaviour: {} });
    const job = await relay.api.ok<ReplayJob>('POST', `/v1/endpoints/${endpointId}/replay`, { since });
    expect(await untilDone(relay.api, job.jobId)).toMatchObject({ total: 3, replayed: 3 });
    await relay.api.untilSettled();
    expect(receiver.summary().succeededDeliveries).toBe(3);
  });

  it('that die again are not taken twice by the same job', async () => {
    const receiver = relay.receiver('again');
    const { endpointId } = await withDead(relay.api, receiver, 10);
    receiver.configure({ behaviour: { status: 500 } });
    const job = await relay.api.ok<ReplayJob>('POST', '/v1/replays', { endpointId });
    expect(await untilDone(relay.api, job.jobId)).toMatchObject({ state: 'completed', replayed: 10 });
    await relay.api.untilSettled();
    expect(receiver.summary().requests).toBe(20);
  });
});

describe('a job in its middle', () => {
  const TOTAL = 200;
  let small: Relay;
  let holder: pg.Client;

  beforeEach(async () => {
    small = await Relay.start({ 'replay.batch': 3 });
    holder = new pg.Client({ connectionString: small.test.url });
    await holder.connect();
  });
  afterEach(async () => {
    await holder.end();
    await small.close();
  });

  /** Starts a job and holds it, once it has got somewhere, by the lock that its steps take. */
  async function held(receiver: SimulatedReceiver): Promise<ReplayJob> {
    const { endpointId } = await withDead(small.api, receiver, TOTAL);
    const { jobId } = await small.api.ok<ReplayJob>('POST', '/v1/replays', { endpointId });
    await until(
      'some progress',
      () => small.api.ok<ReplayJob>('GET', `/v1/replays/${jobId}`),
      ({ replayed }) => replayed > 0,
    );
    await holder.query('BEGIN');
    await holder.query('SELECT 1 FROM relayops.replay_jobs WHERE job_id = $1 FOR UPDATE', [jobId]);
    const job = await small.api.ok<ReplayJob>('GET', `/v1/replays/${jobId}`);
    expect(job.state).toBe('running');
    expect(job.replayed).toBeLessThan(TOTAL);
    return job;
  }

  it('goes on after a restart where it was, and covers each delivery exactly once', async () => {
    const receiver = small.receiver('restart');
    const before = await held(receiver);
    await small.process.stop();
    await holder.query('ROLLBACK');
    const api = small.api.at((await small.startAnother()).url);
    const job = await untilDone(api, before.jobId);
    expect(job).toMatchObject({ state: 'completed', total: TOTAL, replayed: TOTAL });
    await api.untilSettled();
    expect(await small.count('delivery_replays')).toBe(TOTAL);
    expect(receiver.summary()).toMatchObject({
      requests: 2 * TOTAL,
      succeededDeliveries: TOTAL,
      duplicatesAfterSuccess: 0,
    });
    expect(await small.count('delivery_attempts', 'attempt_number > 2')).toBe(0);
  });

  it('can be cancelled: what is reopened stays reopened, and no more is', async () => {
    const receiver = small.receiver('cancelled');
    const { jobId } = await held(receiver);
    // The cancel waits for the lock before the runner may go on.
    const cancelled = small.api.ok<ReplayJob>('POST', `/v1/replays/${jobId}/cancel`);
    await until(
      'the cancel waits',
      () =>
        small.sql(
          `SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
        ),
      (waiting) => waiting.length > 0,
    );
    await holder.query('ROLLBACK');
    const job = await cancelled;
    expect(job.state).toBe('cancelled');
    expect(job.replayed).toBeLessThan(TOTAL);
    await small.api.untilSettled();
    expect(await small.count('delivery_replays', 'job_id = $1', jobId)).toBe(job.replayed);
    expect(receiver.summary().succeededDeliveries).toBe(job.replayed);
    expect(await small.api.ok('POST', `/v1/replays/${jobId}/cancel`)).toEqual(job);
  });
});
