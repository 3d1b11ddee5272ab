import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SimulatedReceiver } from '../../src/simulator/index.ts';
import { Relay } from '../support/relay.ts';
import { until } from '../support/until.ts';

let relay: Relay;

beforeAll(async () => {
  relay = await Relay.start();
});
afterAll(() => relay.close());

const act = (endpointId: string, action: string) =>
  relay.api.ok('POST', `/v1/endpoints/${endpointId}/${action}`);

/** An event that goes its whole way: what was due before it has had its turn. */
async function letOneThrough(name: string): Promise<void> {
  await relay.api.endpoint(relay.receiver(name).url, `${name}.one`);
  const { eventId } = await relay.api.send(`${name}.one`);
  expect((await relay.api.untilEnded(eventId)).state).toBe('succeeded');
}

describe('the state of an endpoint', () => {
  it.each([
    ['pause', 'resume', 'paused'],
    ['disable', 'enable', 'disabled'],
  ])('%s lets deliveries wait until %s', async (off, on, state) => {
    const receiver = relay.receiver(off);
    const { endpointId } = await relay.api.endpoint(receiver.url, `${off}.one`);
    expect(await act(endpointId, off)).toMatchObject({ state });
    const events = [await relay.api.send(`${off}.one`), await relay.api.send(`${off}.one`)];
    await letOneThrough(`beside-${off}`);
    expect(receiver.summary().requests).toBe(0);
    const waiting = await relay.api.deliveries({ endpointId, state: 'pending' });
    expect(waiting.map(({ attempts }) => attempts)).toEqual([0, 0]);

    expect(await act(endpointId, on)).toMatchObject({ state: 'active' });
    for (const { eventId } of events) expect((await relay.api.untilEnded(eventId)).state).toBe('succeeded');
  });

  it('set in another process counts here within seconds', async () => {
    const other = relay.api.at((await relay.startAnother({ role: 'api' })).url);
    const receiver = relay.receiver('elsewhere');
    const { endpointId } = await relay.api.endpoint(receiver.url, 'elsewhere.one');
    await relay.api.untilEnded((await relay.api.send('elsewhere.one')).eventId);
    await other.ok('POST', `/v1/endpoints/${endpointId}/pause`);
    // Events go out until the pause is known here; the first that is not sent shows that it is.
    const { eventId } = await until(
      'a delivery that waits',
      async () => {
        const sent = await relay.api.send('elsewhere.one');
        await letOneThrough(`beside-${sent.eventId}`);
        return relay.api.deliveryOf(sent.eventId);
      },
      ({ state }) => state === 'pending',
      5_000,
    );
    await other.ok('POST', `/v1/endpoints/${endpointId}/resume`);
    expect((await relay.api.untilEnded(eventId)).state).toBe('succeeded');
  });

  it('deleted cancels open deliveries, and sends nothing more', async () => {
    const receiver = relay.receiver('deleted');
    const { endpointId } = await relay.api.endpoint(receiver.url, 'deleted.one', { paused: true });
    const events = [await relay.api.send('deleted.one'), await relay.api.send('deleted.one')];
    await relay.api.ok('DELETE', `/v1/endpoints/${endpointId}`);
    expect((await relay.api.send('deleted.one')).deliveries).toBe(0);
    await relay.process.runtime.janitor.round();
    for (const { eventId } of events)
      expect(await relay.api.deliveryOf(eventId)).toMatchObject({
        state: 'cancelled',
        reason: 'endpoint_deleted',
      });
    expect(await relay.count('delivery_work', 'endpoint_id = $1', endpointId)).toBe(0);
    expect(receiver.summary().requests).toBe(0);
    const replay = { endpointId, states: ['cancelled'], dryRun: true };
    expect(await relay.api.ok('POST', '/v1/replays', replay)).toMatchObject({ count: 0 });
  });
});

/** Watches a receiver; what is in flight are requests without an end. */
async function mostInFlight(receiver: SimulatedReceiver, total: number): Promise<number> {
  let most = 0;
  await receiver.until(({ requests, answers }) => {
    const ended = Object.values(answers).reduce((sum, count) => sum + count, 0);
    most = Math.max(most, requests - ended);
    return ended === total;
  }, 20_000);
  return most;
}

describe('the limits of an endpoint (SPEC D8)', () => {
  it('allow so many requests at once, and never more', async () => {
    const receiver = relay.receiver('concurrency');
    receiver.configure({ behaviour: { latencyMs: 20, jitterMs: 30 } });
    await relay.api.endpoint(receiver.url, 'concurrency.one', { maxConcurrency: 3 });
    const most = mostInFlight(receiver, 60);
    await relay.api.sendMany('concurrency.one', 60);
    expect(await most).toBe(3);
  });

  it('allow so many requests a second', async () => {
    const receiver = relay.receiver('rate');
    await relay.api.endpoint(receiver.url, 'rate.one', { ratePerSecond: 20, rateBurst: 5 });
    await relay.api.sendMany('rate.one', 35);
    await receiver.until((summary) => summary.succeededDeliveries === 35);
    const times = receiver.requests().map(({ at }) => Date.parse(at));
    const tookS = (times.at(-1)! - times[0]!) / 1000;
    // 5 at once, then 30 at 20 a second.
    expect(tookS).toBeGreaterThan(1.4);
    expect(tookS).toBeLessThan(4);
    // In no second more than the burst and the rate together.
    const mostInASecond = Math.max(
      ...times.map((start) => times.filter((at) => at >= start && at < start + 1_000).length),
    );
    expect(mostInASecond).toBeLessThanOrEqual(5 + 20 + 1);
    expect(await relay.count('delivery_attempts', 'attempt_number > 1')).toBe(0);
  });

  it('keep a backlog of an endpoint that hangs away from the others', async () => {
    const [hung, well] = [relay.receiver('hung'), relay.receiver('well')];
    hung.configure({ behaviour: { hang: true } });
    const { endpointId } = await relay.api.endpoint(hung.url, 'isolated.*', { retry: { maxAttempts: 2 } });
    await relay.api.endpoint(well.url, 'isolated.*');
    await relay.api.sendMany('isolated.one', 300);
    await well.until((summary) => summary.succeededDeliveries === 300);
    // The endpoint that hangs has not got further than its slots, since its first requests have not timed out yet.
    expect(hung.summary().requests).toBeLessThanOrEqual(32);
    const last = await relay.api.send('isolated.last');
    await well.until((summary) => summary.succeededDeliveries === 301);
    expect(last.deliveries).toBe(2);
    await relay.api.ok('DELETE', `/v1/endpoints/${endpointId}`);
    hung.configure({ behaviour: {} });
    await until(
      'its deliveries cancelled',
      async () => {
        await relay.process.runtime.janitor.round();
        return (await relay.api.stats()).open.count;
      },
      (open) => open === 0,
    );
  });
});

describe('a delivery that is cancelled', () => {
  it('while pending is not sent, and cannot be cancelled twice', async () => {
    const receiver = relay.receiver('cancel-pending');
    await relay.api.endpoint(receiver.url, 'cancel.pending', { paused: true });
    const { deliveryId } = await relay.api.deliveryOf((await relay.api.send('cancel.pending')).eventId);
    const cancelled = await relay.api.ok('POST', `/v1/deliveries/${deliveryId}/cancel`);
    expect(cancelled).toMatchObject({
      state: 'cancelled',
      reason: expect.stringMatching(/^cancelled by key:/) as string,
    });
    expect(await relay.api.attempts(deliveryId)).toEqual([]);
    const again = await relay.api.call('POST', `/v1/deliveries/${deliveryId}/cancel`);
    expect(again).toMatchObject({ status: 409, body: { code: 'DELIVERY_NOT_OPEN' } });
  });

  it('while in progress has an attempt of unknown end, and what the receiver said is kept beside it', async () => {
    const receiver = relay.receiver('cancel-running');
    receiver.configure({ behaviour: { latencyMs: 300 } });
    await relay.api.endpoint(receiver.url, 'cancel.running');
    const { eventId } = await relay.api.send('cancel.running');
    await receiver.until((summary) => summary.requests === 1);
    const running = await relay.api.deliveryOf(eventId);
    expect(running).toMatchObject({ state: 'in_progress', attempts: 1 });
    await relay.api.ok('POST', `/v1/deliveries/${running.deliveryId}/cancel`);
    const [attempt] = await until(
      'late result',
      () => relay.api.attempts(running.deliveryId),
      ([first]) => first!.lateResults.length > 0,
    );
    expect(attempt).toMatchObject({
      attemptNumber: 1,
      outcome: 'unknown',
      errorCode: 'cancelled_in_flight',
      lateResults: [{ outcome: 'success', httpStatus: 200 }],
    });
    expect((await relay.api.delivery(running.deliveryId)).state).toBe('cancelled');
  });

  it('can be replayed, and goes on with the next number', async () => {
    const receiver = relay.receiver('cancel-replay');
    receiver.configure({ behaviour: { status: '500', retryAfter: '60' } });
    await relay.api.endpoint(receiver.url, 'cancel.replay', { retry: { baseMs: 60_000, capMs: 60_000 } });
    const { eventId } = await relay.api.send('cancel.replay');
    const { deliveryId } = await relay.api.deliveryOf(eventId);
    await until(
      'first attempt',
      () => relay.api.attempts(deliveryId),
      (attempts) => attempts.length === 1,
    );
    await relay.api.ok('POST', `/v1/deliveries/${deliveryId}/cancel`);
    receiver.configure({ behaviour: {} });
    await relay.api.ok('POST', `/v1/deliveries/${deliveryId}/replay`);
    await relay.api.untilState(deliveryId, 'succeeded');
    const attempts = await relay.api.attempts(deliveryId);
    expect(attempts.map(({ attemptNumber, outcome }) => [attemptNumber, outcome])).toEqual([
      [1, 'retryable'],
      [2, 'success'],
    ]);
  });
});
