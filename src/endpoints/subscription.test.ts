import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { Page } from '../platform/http/page.ts';
import type { Endpoint } from './endpoint.schemas.ts';
import { EndpointsApp, type Refusal, UNKNOWN_ID } from './endpoints.fixture.ts';
import { MAX_SUBSCRIPTIONS } from './subscription-rules.ts';
import type { Subscription } from './subscription.schemas.ts';

let test: TestDatabase;
let app: EndpointsApp;

beforeAll(async () => {
  test = await testDatabase();
  app = await EndpointsApp.start(test.database);
});
afterAll(async () => {
  await app.close();
  await test.close();
});

const post = (endpointId: string, body: unknown) =>
  app.call<Subscription & Refusal>('POST', `/${endpointId}/subscriptions`, body);
const patch = ({ endpointId, subscriptionId }: Subscription, body: unknown) =>
  app.call<Subscription & Refusal>('PATCH', `/${endpointId}/subscriptions/${subscriptionId}`, body);
const remove = ({ endpointId, subscriptionId }: Subscription) =>
  app.call('DELETE', `/${endpointId}/subscriptions/${subscriptionId}`);
const goesTo = async (type: string, payload?: unknown) =>
  (await app.routes(type, payload)).routes.map(({ endpointId }) => endpointId);

describe('subscribing', () => {
  it('counts for the next event, with a new version of routing and endpoint', async () => {
    const { id } = await app.make();
    await app.target(id);
    const before = await app.routes('sub.made');
    const { status, body } = await post(id, { pattern: 'sub.*', filter: 'payload.amount > 100' });
    expect(status).toBe(201);
    expect(body).toMatchObject({ endpointId: id, pattern: 'sub.*', filter: 'payload.amount > 100' });
    const after = await app.routes('sub.made', { amount: 101 });
    expect(after).toEqual({ version: before.version + 1, routes: [{ endpointId: id, filterError: null }] });
    expect(await goesTo('sub.made', { amount: 1 })).toEqual([]);
    expect(await goesTo('other', { amount: 101 })).toEqual([]);
    expect((await app.target(id)).version).toBe(2);
    expect((await app.call<Endpoint>('GET', `/${id}`)).body.subscriptionCount).toBe(1);
  });

  it.each([
    [{ pattern: 'order*' }, 'SUBSCRIPTION_INVALID', ['pattern']],
    [{ pattern: '' }, 'SUBSCRIPTION_INVALID', ['pattern']],
    [{ pattern: 'a', filter: 'payload.amount >' }, 'SUBSCRIPTION_INVALID', ['filter']],
    [{ pattern: 'a', filter: 'unknown == 1' }, 'SUBSCRIPTION_INVALID', ['filter']],
    [{ pattern: 'a', filter: '1 + 1' }, 'SUBSCRIPTION_INVALID', ['filter']],
    [{ pattern: 'a', filter: '' }, 'SUBSCRIPTION_INVALID', ['filter']],
    [{ pattern: 'a', filter: 'event.type == "\0"' }, 'SUBSCRIPTION_INVALID', ['filter']],
    [{ pattern: 'a', filter: 'event.type == "\ud800"' }, 'SUBSCRIPTION_INVALID', ['filter']],
    [{ pattern: 'a.', filter: 'x' }, 'SUBSCRIPTION_INVALID', ['pattern', 'filter']],
    [{ pattern: 'a', filter: 'x'.repeat(4_097) }, 'REQUEST_INVALID', ['body/filter']],
    [{ filter: 'true' }, 'REQUEST_INVALID', ['body/pattern']],
    [{ pattern: 'a', endpointId: 'x' }, 'REQUEST_INVALID', ['body/endpointId']],
  ])('refuses %j', async (wrong, code, fields) => {
    const { id } = await app.make();
    const { status, body } = await post(id, wrong);
    expect({ status, code: body.code }).toEqual({ status: 400, code });
    expect(body.errors.map(({ field }) => field)).toEqual(expect.arrayContaining(fields));
    expect(await app.version(id)).toBe(1);
  });

  it('takes a filter of several lines', async () => {
    const { id } = await app.make();
    expect(
      (await post(id, { pattern: 'a', filter: 'payload.a == 1\n\t&& payload.b == "\u2028"' })).status,
    ).toBe(201);
  });

  it('stops at the limit of an endpoint, however many come at once', async () => {
    const subscriptions = Array.from({ length: MAX_SUBSCRIPTIONS - 2 }, (_, i) => ({ pattern: `t${i}` }));
    const { id } = await app.make({ subscriptions });
    const made = await Promise.all(Array.from({ length: 5 }, () => post(id, { pattern: 'more' })));
    expect(made.map(({ status }) => status).sort()).toEqual([201, 201, 409, 409, 409]);
    expect(made.find(({ status }) => status === 409)?.body.code).toBe('SUBSCRIPTION_LIMIT_REACHED');
  });
});

describe('the list of subscriptions', () => {
  it('has those of the endpoint once, newest first', async () => {
    const { id } = await app.make();
    const other = await app.make({ subscriptions: [{ pattern: 'x' }] });
    const made: Subscription[] = [];
    for (const pattern of ['a', 'b', 'c', 'd']) made.unshift(await app.subscribe(id, pattern));
    const page = (query: string) => app.call<Page<Subscription>>('GET', `/${id}/subscriptions?${query}`);
    const first = (await page('limit=3')).body;
    const second = (await page(`limit=3&cursor=${first.nextCursor}`)).body;
    expect([...first.data, ...second.data]).toEqual(made);
    expect(second.nextCursor).toBeNull();
    expect(made.map(({ endpointId }) => endpointId)).not.toContain(other.id);
  });
});

describe('changing a subscription', () => {
  it('leaves what is absent and routes by the rest at once', async () => {
    const { id } = await app.make();
    const made = await app.subscribe(id, 'chg.a', 'payload.n > 1');
    expect(await goesTo('chg.a', { n: 2 })).toEqual([id]);
    const { version } = await app.routes('chg.a', { n: 2 });
    expect((await patch(made, { pattern: 'chg.b' })).body).toEqual({ ...made, pattern: 'chg.b' });
    expect([await goesTo('chg.a', { n: 2 }), await goesTo('chg.b', { n: 2 })]).toEqual([[], [id]]);
    expect((await patch(made, { filter: 'payload.n > 5' })).body).toMatchObject({
      pattern: 'chg.b',
      filter: 'payload.n > 5',
    });
    expect(await goesTo('chg.b', { n: 2 })).toEqual([]);
    expect((await patch(made, { filter: null })).body).toMatchObject({ pattern: 'chg.b', filter: null });
    expect(await app.routes('chg.b')).toMatchObject({ version: version + 3, routes: [{ endpointId: id }] });
    expect(await app.version(id)).toBe(5);
  });

  it('is refused as at creation, and then changes nothing', async () => {
    const { id } = await app.make();
    const made = await app.subscribe(id, 'keep');
    const before = await app.routes('keep');
    expect((await patch(made, { pattern: '*.x', filter: 'payload.' })).body).toMatchObject({
      code: 'SUBSCRIPTION_INVALID',
      errors: [{ field: 'pattern' }, { field: 'filter' }],
    });
    expect((await patch(made, { pattern: null })).body.code).toBe('REQUEST_INVALID');
    expect((await patch(made, {})).body.code).toBe('REQUEST_INVALID');
    expect(await app.routes('keep')).toEqual(before);
  });
});

describe('ending a subscription', () => {
  it('counts for the next event', async () => {
    const { id } = await app.make();
    const made = await app.subscribe(id, 'end');
    const before = await app.routes('end');
    expect(before.routes).toHaveLength(1);
    expect((await remove(made)).status).toBe(204);
    expect(await app.routes('end')).toEqual({ version: before.version + 1, routes: [] });
    expect((await remove(made)).status).toBe(404);
  });

  it('is not possible through another endpoint, and leaves that one alone', async () => {
    const { id } = await app.make();
    const other = await app.make();
    const made = await app.subscribe(id, 'mine');
    const before = { routes: await app.routes('mine'), version: await app.version(other.id) };
    const elsewhere = { ...made, endpointId: other.id };
    expect([(await remove(elsewhere)).status, (await patch(elsewhere, { pattern: 'x' })).status]).toEqual([
      404, 404,
    ]);
    expect((await remove({ ...made, subscriptionId: UNKNOWN_ID })).status).toBe(404);
    expect({ routes: await app.routes('mine'), version: await app.version(other.id) }).toEqual(before);
  });
});

it('changes at once neither wait for each other for ever nor lose a version', async () => {
  const endpoints = await Promise.all([app.make(), app.make(), app.make()]);
  const { version } = await app.routes('busy');
  await Promise.all(Array.from({ length: 12 }, (_, i) => app.subscribe(endpoints[i % 3]!.id, 'busy')));
  const after = await app.routes('busy');
  expect(after.version).toBe(version + 12);
  expect(after.routes.map(({ endpointId }) => endpointId)).toEqual(endpoints.map(({ id }) => id).sort());
});
