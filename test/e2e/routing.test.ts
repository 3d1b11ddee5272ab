import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Relay } from '../support/relay.ts';

let relay: Relay;

beforeAll(async () => {
  relay = await Relay.start();
});
afterAll(() => relay.close());

const subscribe = (endpointId: string, pattern: string) =>
  relay.api.ok<{ subscriptionId: string }>('POST', `/v1/endpoints/${endpointId}/subscriptions`, { pattern });
const act = (endpointId: string, action: string) =>
  relay.api.ok('POST', `/v1/endpoints/${endpointId}/${action}`);

describe('routing (SPEC D1)', () => {
  it('is frozen with the event: who subscribes later does not get it, who unsubscribes later does', async () => {
    const [early, late] = [relay.receiver('early'), relay.receiver('late')];
    const first = await relay.api.endpoint(early.url, 'frozen.*', { subscriptions: [], paused: true });
    const { subscriptionId } = await subscribe(first.endpointId, 'frozen.*');
    const event = await relay.api.send('frozen.one');
    expect(event.deliveries).toBe(1);

    const second = await relay.api.endpoint(late.url, 'frozen.*');
    await relay.api.ok('DELETE', `/v1/endpoints/${first.endpointId}/subscriptions/${subscriptionId}`);
    const next = await relay.api.send('frozen.two');
    await act(first.endpointId, 'resume');
    await relay.api.untilSettled();

    const got = (receiver: typeof early) =>
      receiver.requests().map(({ headers }) => headers['x-relayops-event-id']);
    expect(got(early)).toEqual([event.eventId]);
    expect(got(late)).toEqual([next.eventId]);
    expect(await relay.api.deliveryOf(next.eventId)).toMatchObject({ endpointId: second.endpointId });
  });

  it('matches a type exactly, by prefix, or all', async () => {
    const wanted: Record<string, readonly string[]> = {
      'shop.order': ['shop.order'],
      'shop.order.*': ['shop.order.paid', 'shop.order.refund.done'],
      'shop.*': ['shop.order', 'shop.order.paid', 'shop.order.refund.done', 'shop.orders'],
    };
    for (const pattern of Object.keys(wanted))
      await relay.api.endpoint(relay.receiver(`match-${pattern.replace('*', 'all')}`).url, pattern);
    for (const type of [
      'shop.order',
      'shop.order.paid',
      'shop.order.refund.done',
      'shop.orders',
      'shopping.one',
    ])
      await relay.api.send(type);
    await relay.api.untilSettled();
    const got = Object.keys(wanted).map((pattern) => [
      pattern,
      relay
        .receiver(`match-${pattern.replace('*', 'all')}`)
        .requests()
        .map(({ headers }) => headers['x-relayops-event-type'])
        .sort(),
    ]);
    expect(Object.fromEntries(got)).toEqual(wanted);
  });

  it('delivers once to an endpoint with two subscriptions that match', async () => {
    const receiver = relay.receiver('twice');
    const { endpointId } = await relay.api.endpoint(receiver.url, 'twice.*');
    await subscribe(endpointId, 'twice.one');
    expect((await relay.api.send('twice.one')).deliveries).toBe(1);
  });

  it('counts a subscription from the moment that its answer came', async () => {
    for (let round = 0; round < 20; round += 1) {
      const { endpointId } = await relay.api.endpoint(relay.receiver('moment').url, `moment.r${round}`);
      expect((await relay.api.send(`moment.r${round}`)).deliveries).toBe(1);
      await relay.api.ok('DELETE', `/v1/endpoints/${endpointId}`);
      expect((await relay.api.send(`moment.r${round}`)).deliveries).toBe(0);
    }
    // What had not been sent when its endpoint was deleted is cancelled by the janitor.
    await relay.process.runtime.janitor.round();
    await relay.api.untilSettled();
  });

  it('counts a subscription made through another process at once', async () => {
    const other = relay.api.at((await relay.startAnother({ role: 'api' })).url);
    const receiver = relay.receiver('elsewhere');
    for (let round = 0; round < 10; round += 1) {
      await other.endpoint(receiver.url, `elsewhere.r${round}`);
      expect((await relay.api.send(`elsewhere.r${round}`)).deliveries).toBe(1);
    }
    await relay.api.untilSettled();
    expect(receiver.summary().succeededDeliveries).toBe(10);
  });
});

describe('a filter', () => {
  const filtered = (name: string, filter: string) =>
    relay.api.endpoint(relay.receiver(name).url, '', {
      subscriptions: [{ pattern: `${name}.*`, filter }],
    });

  it('lets through what it holds for, and nothing else', async () => {
    await filtered('amount', 'payload.amount > 100 && event.type == "amount.paid"');
    const counts = [];
    for (const [type, amount] of [
      ['amount.paid', 101],
      ['amount.paid', 100],
      ['amount.sent', 500],
    ] as const)
      counts.push((await relay.api.send(type, { amount })).deliveries);
    expect(counts).toEqual([1, 0, 0]);
    await relay.api.untilSettled();
    expect(relay.receiver('amount').summary().succeededDeliveries).toBe(1);
  });

  it('compares integers beyond 2^53 exactly', async () => {
    await filtered('big', 'payload == 9007199254740993');
    expect((await relay.api.sendText('big.one', '9007199254740993')).deliveries).toBe(1);
    expect((await relay.api.sendText('big.one', '9007199254740992')).deliveries).toBe(0);
  });

  it('that cannot be evaluated is a failed delivery with its reason, visible, never sent and not replayable', async () => {
    const { endpointId } = await filtered('broken', 'payload.customer.age > 18');
    const accepted = await relay.api.send('broken.one', { customer: null });
    expect(accepted.deliveries).toBe(1);
    const [delivery] = await relay.api.deliveries({ state: 'failed', endpointId });
    expect(delivery).toMatchObject({ eventId: accepted.eventId, state: 'failed' });
    expect(delivery!.reason).toMatch(/^filter_error: ./);
    expect(await relay.api.attempts(delivery!.deliveryId)).toEqual([]);

    const replay = await relay.api.call('POST', `/v1/deliveries/${delivery!.deliveryId}/replay`);
    expect(replay).toMatchObject({ status: 409, body: { code: 'DELIVERY_NOT_REPLAYABLE' } });
    const dryRun = await relay.api.ok('POST', '/v1/replays', { endpointId, dryRun: true });
    expect(dryRun).toEqual({ dryRun: true, count: 0, exact: true });
    expect(relay.receiver('broken').summary().requests).toBe(0);
  });

  it('that fails for one endpoint does not touch the others', async () => {
    await filtered('mixed', 'payload.nothing.here');
    await relay.api.endpoint(relay.receiver('mixed-well').url, 'mixed.*');
    const { eventId, deliveries } = await relay.api.send('mixed.one', {});
    expect(deliveries).toBe(2);
    await relay.api.untilSettled();
    const states = (await relay.api.deliveries({ eventId })).map(({ state }) => state);
    expect(states.sort()).toEqual(['failed', 'succeeded']);
  });
});
