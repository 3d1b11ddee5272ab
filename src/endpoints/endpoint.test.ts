import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { Page } from '../platform/http/page.ts';
import type { EndpointId } from '../shared/ids.ts';
import { MAX_ENDPOINTS } from './endpoint-rules.ts';
import type { Endpoint, NewEndpoint } from './endpoint.schemas.ts';
import { EndpointsApp, type Refusal, URL_OK, secretOf } from './endpoints.fixture.ts';

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
const post = (body: Record<string, unknown>, token?: string) =>
  app.call<NewEndpoint & Refusal>('POST', '', { url: URL_OK, ...body }, token);
const get = (id: string) => app.call<Endpoint & Refusal>('GET', `/${id}`);
const patch = (id: string, body: unknown) => app.call<Endpoint & Refusal>('PATCH', `/${id}`, body);
const ALL_SETTINGS = {
  name: 'billing',
  headers: { Authorization: 'Bearer x', 'X-Team': 'a b' },
  maxConcurrency: 3,
  ratePerSecond: 2.5,
  rateBurst: 7,
  timeoutMs: 4_000,
  retry: { maxAttempts: 4, baseMs: 100, factor: 1.5, capMs: 9_000 },
};
const NOTHING_SET = {
  name: '',
  headers: {},
  maxConcurrency: null,
  ratePerSecond: null,
  rateBurst: null,
  timeoutMs: null,
  retry: { maxAttempts: null, baseMs: null, factor: null, capMs: null },
};
const DEFAULTS = {
  maxConcurrency: 16,
  ratePerSecond: null,
  rateBurst: null,
  timeoutMs: 15_000,
  retry: { maxAttempts: 12, baseMs: 5_000, factor: 3, capMs: 21_600_000 },
};

describe('making an endpoint', () => {
  it('needs only an URL, and shows the secret once', async () => {
    const { status, body, headers } = await post({});
    expect(status).toBe(201);
    expect(headers['cache-control']).toBe('no-store');
    expect(body.secret).toMatch(/^whsec_[A-Za-z0-9+/]{43}=$/);
    expect(body.subscriptions).toEqual([]);
    expect(body.endpoint).toMatchObject({
      url: URL_OK,
      state: 'active',
      stateReason: null,
      ...NOTHING_SET,
      effective: DEFAULTS,
    });
    const again = await get(body.endpoint.endpointId);
    expect(again.body).toEqual(body.endpoint);
    const list = await app.call('GET', '');
    for (const text of [again.text, list.text]) expect(text).not.toContain('whsec');
    const target = await app.target(body.endpoint.endpointId as EndpointId);
    expect(target.secrets.map(({ key }) => key.export().toString('base64'))).toEqual([
      body.secret.slice('whsec_'.length),
    ]);
  });

  it('keeps everything that was set, for delivery too', async () => {
    const { endpoint, id } = await app.make({ ...ALL_SETTINGS, paused: true });
    expect(endpoint).toMatchObject({ ...ALL_SETTINGS, state: 'paused' });
    const { name: _name, headers, ...effective } = ALL_SETTINGS;
    expect(endpoint.effective).toEqual(effective);
    expect(await app.target(id)).toMatchObject({
      headers,
      state: 'paused',
      timeoutMs: 4_000,
      limits: { maxConcurrency: 3, rate: { ratePerSecond: 2.5, burst: 7 } },
      retry: ALL_SETTINGS.retry,
    });
  });

  it('takes a secret that somebody brings, and says it back', async () => {
    for (const bytes of [24, 64])
      expect((await app.make({ secret: secretOf(bytes) })).secret).toBe(secretOf(bytes));
  });

  it('stores the URL as it is dialled', async () => {
    expect((await app.make({ url: 'HTTPS://Example.COM:443/A/../b?c=d' })).endpoint.url).toBe(
      'https://example.com/b?c=d',
    );
  });

  it('subscribes in the same transaction', async () => {
    const before = await app.routes('made.one');
    const subscriptions = [{ pattern: 'made.*', filter: 'payload.n > 1' }, { pattern: 'other' }];
    const made = await app.make({ subscriptions });
    expect(made.subscriptions).toMatchObject([
      { endpointId: made.id, pattern: 'made.*', filter: 'payload.n > 1' },
      { endpointId: made.id, pattern: 'other', filter: null },
    ]);
    expect(made.endpoint.subscriptionCount).toBe(2);
    expect((await get(made.id)).body.subscriptionCount).toBe(2);
    const after = await app.routes('made.one', { n: 2n });
    expect(after).toEqual({
      version: before.version + 1,
      routes: [{ endpointId: made.id, filterError: null }],
    });
  });

  it('leaves nothing when one subscription is refused', async () => {
    const before = (await app.call<Page<Endpoint>>('GET', '?limit=200')).body.data.length;
    const subscriptions = [
      { pattern: 'a' },
      { pattern: '*.b', filter: 'payload.' },
      { pattern: 'c', filter: '1' },
    ];
    const { status, body } = await post({ subscriptions });
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'SUBSCRIPTION_INVALID' });
    expect(body.errors.map(({ field }) => field)).toEqual([
      'subscriptions/1/pattern',
      'subscriptions/1/filter',
      'subscriptions/2/filter',
    ]);
    for (const { reason, fix } of body.errors) expect([reason, fix]).not.toContain('');
    expect((await app.call<Page<Endpoint>>('GET', '?limit=200')).body.data).toHaveLength(before);
  });

  it('says everything that is wrong at once', async () => {
    const { body } = await post({
      url: 'http://127.0.0.1/',
      headers: { 'X-A': 'a\r\nb' },
      timeoutMs: 30_001,
      secret: 'whsec_c2hvcnQ=',
      subscriptions: [{ pattern: '' }],
    });
    expect(body.code).toBe('ENDPOINT_URL_REFUSED');
    expect(body.errors.map(({ field }) => field)).toEqual([
      'url',
      'headers/X-A',
      'timeoutMs',
      'secret',
      'subscriptions/0/pattern',
    ]);
  });

  it.each([
    ['headers', { headers: { 'Webhook-Id': 'mine' } }, 'ENDPOINT_SETTINGS_INVALID', 'headers/Webhook-Id'],
    ['a time-out over the limit', { timeoutMs: 30_001 }, 'ENDPOINT_SETTINGS_INVALID', 'timeoutMs'],
    ['a short secret', { secret: secretOf(23) }, 'ENDPOINT_SECRET_INVALID', 'secret'],
    ['a long secret', { secret: secretOf(65) }, 'ENDPOINT_SECRET_INVALID', 'secret'],
    ['a name with a NUL', { name: 'a\0b' }, 'REQUEST_INVALID', 'body/name'],
    ['a name with half a character', { name: 'a\ud800' }, 'REQUEST_INVALID', 'body/name'],
    ['no concurrency', { maxConcurrency: 0 }, 'REQUEST_INVALID', 'body/maxConcurrency'],
    ['a rate of nothing', { ratePerSecond: 0 }, 'REQUEST_INVALID', 'body/ratePerSecond'],
    ['a number as text', { rateBurst: '5' }, 'REQUEST_INVALID', 'body/rateBurst'],
    ['a shrinking back-off', { retry: { factor: 0.5 } }, 'REQUEST_INVALID', 'body/retry/factor'],
    ['endless attempts', { retry: { maxAttempts: 101 } }, 'REQUEST_INVALID', 'body/retry/maxAttempts'],
    ['a header that is no text', { headers: { 'X-A': 1 } }, 'REQUEST_INVALID', 'body/headers/X-A'],
    ['a tenant of its choice', { tenantId: 'x' }, 'REQUEST_INVALID', 'body/tenantId'],
    [
      'too many subscriptions',
      { subscriptions: Array(101).fill({ pattern: '*' }) },
      'REQUEST_INVALID',
      'body/subscriptions',
    ],
  ])('refuses %s', async (_name, wrong, code, field) => {
    const { status, body, text } = await post(wrong);
    expect({ status, code: body.code }).toEqual({ status: 400, code });
    expect(body.errors.map((one) => one.field)).toContain(field);
    if ('secret' in wrong) expect(text).not.toContain(wrong.secret.slice(8));
  });

  it('stops at the limit of a tenant, however many come at once', async () => {
    const { token, tenant } = await app.tenants.signUp('Large');
    await app.make({}, token);
    await app.tenants.sql(
      `INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url, deleted_at)
       SELECT gen_random_uuid(), $1, 'https://example.com/', CASE WHEN n > $2 THEN now() END FROM generate_series(1, $2 + 5) AS n`,
      tenant.tenantId,
      MAX_ENDPOINTS - 3,
    );
    const made = await Promise.all(Array.from({ length: 5 }, () => post({}, token)));
    expect(made.map(({ status }) => status).sort()).toEqual([201, 201, 409, 409, 409]);
    expect(made.find(({ status }) => status === 409)?.body.code).toBe('ENDPOINT_LIMIT_REACHED');
    expect((await post({})).status).toBe(201);
  });
});

describe('the list of endpoints', () => {
  it('has every endpoint once, newest first, and can show one state', async () => {
    const { token } = await app.tenants.signUp('Lister');
    const made: string[] = [];
    for (let i = 0; i < 5; i++) made.unshift((await app.make({ paused: i % 2 === 1 }, token)).id);
    const page = (query: string) => app.call<Page<Endpoint>>('GET', `?${query}`, undefined, token);
    const ids = (body: Page<Endpoint>) => body.data.map(({ endpointId }) => endpointId);
    const first = (await page('limit=3')).body;
    const late = await app.make({}, token);
    const second = (await page(`limit=3&cursor=${first.nextCursor}`)).body;
    expect([...ids(first), ...ids(second)]).toEqual(made);
    expect(second.nextCursor).toBeNull();
    expect(ids((await page('state=paused')).body)).toEqual([made[1], made[3]]);
    await app.call('DELETE', `/${late.id}`, undefined, token);
    expect(ids((await page('state=active')).body)).toEqual([made[0], made[2], made[4]]);
    expect((await page('state=deleted')).body).toMatchObject({ code: 'REQUEST_INVALID' });
    expect((await page('cursor=x')).body).toMatchObject({ code: 'CURSOR_INVALID' });
  });
});

describe('changing an endpoint', () => {
  it('leaves what is absent, and null takes the default', async () => {
    const { id } = await app.make(ALL_SETTINGS);
    const changed = await patch(id, {
      maxConcurrency: 5,
      retry: { factor: null },
      url: 'https://example.org/x',
    });
    expect(changed.body).toMatchObject({
      ...ALL_SETTINGS,
      url: 'https://example.org/x',
      maxConcurrency: 5,
      retry: { ...ALL_SETTINGS.retry, factor: null },
      effective: { retry: { factor: 3 }, maxConcurrency: 5 },
    });
    expect((await patch(id, { retry: null })).body.retry).toEqual(NOTHING_SET.retry);
    const nothing = Object.fromEntries(Object.keys(ALL_SETTINGS).map((key) => [key, null]));
    expect((await patch(id, nothing)).body).toMatchObject({ ...NOTHING_SET, effective: DEFAULTS });
  });

  it('counts at once for delivery, and raises the version for other processes', async () => {
    const { id } = await app.make();
    const before = { target: await app.target(id), version: await app.version(id) };
    await patch(id, { timeoutMs: 1_234, headers: { 'X-New': '1' } });
    expect(before.target.timeoutMs).toBe(15_000);
    expect(await app.target(id)).toMatchObject({
      timeoutMs: 1_234,
      headers: { 'X-New': '1' },
      version: before.version + 1,
    });
  });

  it('loses none of two changes at once', async () => {
    const { id } = await app.make();
    await Promise.all([
      patch(id, { name: 'n' }),
      patch(id, { maxConcurrency: 9 }),
      patch(id, { timeoutMs: 77 }),
    ]);
    expect((await get(id)).body).toMatchObject({ name: 'n', maxConcurrency: 9, timeoutMs: 77 });
  });

  it.each([
    [{ headers: { Host: 'x' } }, 'ENDPOINT_SETTINGS_INVALID'],
    [{ timeoutMs: 30_001 }, 'ENDPOINT_SETTINGS_INVALID'],
    [{ url: null }, 'REQUEST_INVALID'],
    [{ state: 'active' }, 'REQUEST_INVALID'],
    [{ secret: secretOf(32) }, 'REQUEST_INVALID'],
    [{}, 'REQUEST_INVALID'],
  ])('refuses %j', async (wrong, code) => {
    const { id, endpoint } = await app.make();
    expect((await patch(id, wrong)).body.code).toBe(code);
    expect((await get(id)).body).toEqual(endpoint);
  });
});
