import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { Relay } from '../support/relay.ts';
import type { Delivery, Page, RelayClient } from '../support/relay-client.ts';

const EVENTS = 30;

let relay: Relay;

beforeAll(async () => {
  relay = await Relay.start();
});
afterAll(() => relay.close());

/** Reads a list to its end in small pages, doing something between them. */
async function pages<Item>(
  api: RelayClient,
  path: string,
  between: () => Promise<unknown> = async () => undefined,
): Promise<Item[]> {
  const items: Item[] = [];
  let cursor = '';
  for (;;) {
    const page = await api.ok<Page<Item>>('GET', `${path}limit=7${cursor}`);
    expect(page.data.length).toBeLessThanOrEqual(7);
    items.push(...page.data);
    if (page.nextCursor === null) return items;
    cursor = `&cursor=${encodeURIComponent(page.nextCursor)}`;
    await between();
  }
}

describe('a list', () => {
  it('of events is the same on every page while new ones come in', async () => {
    const { api } = await relay.newTenant();
    const sent: string[] = [];
    for (let n = 0; n < EVENTS; n += 1) sent.push((await api.send('paged.one', { n })).eventId);
    const listed = await pages<{ eventId: string }>(api, '/v1/events?', () => api.sendMany('paged.one', 5));
    expect(listed.map(({ eventId }) => eventId)).toEqual(sent.sort().reverse());
  });

  it('of deliveries is the same on every page while new ones come in and others end', async () => {
    const { api } = await relay.newTenant();
    await api.endpoint(relay.receiver('paged-a').url, 'paged.*');
    await api.endpoint(relay.receiver('paged-b').url, 'paged.*');
    await api.sendMany('paged.two', EVENTS);
    await api.untilSettled();
    const before = new Set((await api.deliveries()).map(({ deliveryId }) => deliveryId));
    expect(before.size).toBe(2 * EVENTS);
    const listed = await pages<Delivery>(api, '/v1/deliveries?', () => api.sendMany('paged.two', 3));
    const ids = listed.map(({ deliveryId }) => deliveryId);
    expect(new Set(ids)).toEqual(before);
    expect(ids).toHaveLength(before.size);
    const order = listed.map(({ eventId, endpointId }) => `${eventId}/${endpointId}`);
    expect(order).toEqual([...order].sort().reverse());
    await api.untilSettled();
  });

  it('of pending deliveries, the next due first, has each once', async () => {
    const { api } = await relay.newTenant();
    await api.endpoint(relay.receiver('paused-a').url, 'waiting.*', { paused: true });
    await api.endpoint(relay.receiver('paused-b').url, 'waiting.*', { paused: true });
    // All of one batch are due at the very same time.
    await api.sendMany('waiting.one', EVENTS);
    const listed = await pages<Delivery>(api, '/v1/deliveries?state=pending&', () =>
      api.sendMany('waiting.one', 1),
    );
    const first = listed.filter(({ nextAttemptAt }) => nextAttemptAt === listed[0]!.nextAttemptAt);
    expect(new Set(first.map(({ deliveryId }) => deliveryId)).size).toBe(2 * EVENTS);
    const due = listed.map(({ nextAttemptAt }) => Date.parse(nextAttemptAt!));
    expect(due).toEqual([...due].sort((a, b) => a - b));
    expect(new Set(listed.map(({ deliveryId }) => deliveryId)).size).toBe(listed.length);
  });

  it.each(['/v1/events', '/v1/deliveries', '/v1/endpoints', '/v1/replays', '/v1/api-keys', '/v1/users'])(
    '%s refuses a cursor that it did not give, and a page that is too large',
    async (path) => {
      for (const cursor of ['x', 'AAAA', '../../etc', '%00', `${Buffer.from('["x"]').toString('base64url')}`])
        expect(await relay.api.call('GET', `${path}?cursor=${encodeURIComponent(cursor)}`)).toMatchObject({
          status: 400,
          body: { code: 'CURSOR_INVALID' },
        });
      for (const query of ['limit=0', 'limit=201', 'limit=x', 'unknown=1'])
        expect((await relay.api.call('GET', `${path}?${query}`)).status).toBe(400);
    },
  );
});

describe('filters and counts', () => {
  let api: RelayClient;
  let good: string;
  let bad: string;
  let middle: string;

  beforeAll(async () => {
    api = (await relay.newTenant()).api;
    const refusing = relay.receiver('refusing');
    refusing.configure({ behaviour: { status: 400 } });
    const dying = relay.receiver('dying');
    dying.configure({ behaviour: { status: 500 } });
    good = (await api.endpoint(relay.receiver('taking').url, 'f.*')).endpointId;
    bad = (await api.endpoint(refusing.url, 'f.*')).endpointId;
    await api.endpoint(dying.url, 'f.b', { retry: { maxAttempts: 1 } });
    await api.sendMany('f.a', 4);
    await api.untilSettled();
    const newest = await api.deliveries({ limit: '1' });
    middle = new Date(Date.parse(newest[0]!.createdAt) + 1).toISOString();
    await api.sendMany('f.b', 2);
    await api.untilSettled();
    await api.endpoint(relay.receiver('waiting').url, 'f.c', { paused: true });
    await api.send('f.c');
    await api.sendMany('nobody', 1);
  });

  it.each<[string, () => Record<string, string>, number]>([
    ['nothing', () => ({}), 4 * 2 + 2 * 3 + 3],
    ['state succeeded', () => ({ state: 'succeeded' }), 7],
    ['state failed', () => ({ state: 'failed' }), 7],
    ['state dead', () => ({ state: 'dead' }), 2],
    ['state cancelled', () => ({ state: 'cancelled' }), 0],
    ['state pending', () => ({ state: 'pending' }), 1],
    ['state in_progress', () => ({ state: 'in_progress' }), 0],
    ['endpoint', () => ({ endpointId: good }), 7],
    ['endpoint and state', () => ({ endpointId: bad, state: 'succeeded' }), 0],
    ['type', () => ({ type: 'f.b' }), 6],
    ['type and state', () => ({ type: 'f.a', state: 'failed' }), 4],
    ['from', () => ({ from: middle }), 9],
    ['to', () => ({ to: middle }), 8],
    ['from, to and state', () => ({ from: middle, to: middle }), 0],
    ['an endpoint that does not exist', () => ({ endpointId: '01900000-0000-7000-8000-000000000000' }), 0],
    ['an endpoint that cannot exist', () => ({ endpointId: 'x' }), 0],
  ])('deliveries by %s', async (_what, query, expected) => {
    await api.untilState(
      (await api.deliveries({ type: 'f.c', endpointId: good }))[0]!.deliveryId,
      'succeeded',
    );
    expect(await api.deliveries(query())).toHaveLength(expected);
  });

  it('events by type and time', async () => {
    const count = async (query: string) =>
      (await api.ok<Page<unknown>>('GET', `/v1/events?${query}`)).data.length;
    expect(await count('')).toBe(8);
    expect(await count('type=f.a')).toBe(4);
    expect(await count(`from=${middle}`)).toBe(4);
    expect(await count(`to=${middle}`)).toBe(4);
    expect(await count(`from=${middle}&type=f.b`)).toBe(2);
    expect(await count('type=f')).toBe(0);
  });

  it('stats count what is there, with their window', async () => {
    const stats = await api.stats();
    expect(stats).toMatchObject({
      events: { count: 8, exact: true },
      deliveries: { succeeded: 7, failed: 7, dead: 2, open: 1 },
      deliveriesExact: true,
      open: { count: 1, exact: true },
    });
    expect(Date.parse(stats.window.to) - Date.parse(stats.window.from)).toBe(3_600_000);
    expect(stats.oldestDueAt).not.toBeNull();
    expect(await api.ok('GET', `/v1/stats?endpointId=${good}&minutes=1`)).toMatchObject({
      deliveries: { succeeded: 7 },
      open: { count: 0 },
    });
  });
});
