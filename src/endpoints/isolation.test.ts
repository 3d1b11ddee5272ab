import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { Page } from '../platform/http/page.ts';
import { type Scope, createApiKey } from '../tenants/index.ts';
import type { Member } from '../tenants/tenants.fixture.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';
import type { Endpoint } from './endpoint.schemas.ts';
import { EndpointsApp, type Method, UNKNOWN_ID } from './endpoints.fixture.ts';
import type { Subscription } from './subscription.schemas.ts';

let test: TestDatabase;
let app: EndpointsApp;
let stranger: Member;
let endpointId: EndpointId;
let subscription: Subscription;

beforeAll(async () => {
  test = await testDatabase();
  app = await EndpointsApp.start(test.database);
  stranger = await app.tenants.signUp('Stranger');
  endpointId = (await app.make({ name: 'private', headers: { Authorization: 'Bearer hush' } })).id;
  subscription = await app.subscribe(endpointId, 'private.*');
});
afterAll(async () => {
  await app.close();
  await test.close();
});

const routes: readonly { method: Method; path: string; body?: unknown }[] = [
  { method: 'GET', path: '/:id' },
  { method: 'PATCH', path: '/:id', body: { name: 'taken' } },
  { method: 'POST', path: '/:id/pause' },
  { method: 'POST', path: '/:id/resume' },
  { method: 'POST', path: '/:id/disable' },
  { method: 'POST', path: '/:id/enable' },
  { method: 'POST', path: '/:id/rotate-secret', body: { overlapSeconds: 0 } },
  { method: 'GET', path: '/:id/secrets' },
  { method: 'GET', path: '/:id/subscriptions' },
  { method: 'POST', path: '/:id/subscriptions', body: { pattern: '*' } },
  { method: 'PATCH', path: '/:id/subscriptions/:sub', body: { pattern: '*' } },
  { method: 'DELETE', path: '/:id/subscriptions/:sub' },
  { method: 'DELETE', path: '/:id' },
];

const everything = async (): Promise<unknown> => [
  await app.tenants.sql('SELECT * FROM relayops.webhook_endpoints ORDER BY 1'),
  await app.tenants.sql('SELECT * FROM relayops.endpoint_subscriptions ORDER BY 1'),
  await app.tenants.sql('SELECT * FROM relayops.endpoint_secrets ORDER BY 1'),
  await app.tenants.sql('SELECT * FROM relayops.routing_versions ORDER BY 1'),
];

describe.each(routes)('$method $path', ({ method, path, body }) => {
  const ask = (id: string, sub: string, token: string) =>
    app.call(method, path.replace(':id', id).replace(':sub', sub), body, token);

  it('answers another tenant 404 and changes nothing', async () => {
    const before = await everything();
    const { status, body: answer } = await ask(endpointId, subscription.subscriptionId, stranger.token);
    expect({ status, code: answer['code'] }).toEqual({ status: 404, code: 'NOT_FOUND' });
    expect(await everything()).toEqual(before);
    expect(app.due).toEqual([]);
  });

  it.each([UNKNOWN_ID, 'not-an-id', UNKNOWN_ID.toUpperCase(), 'a%00b'])('answers 404 for %s', async (id) => {
    expect((await ask(id, subscription.subscriptionId, app.owner.token)).body['code']).toBe('NOT_FOUND');
    if (path.includes(':sub'))
      expect((await ask(endpointId, id, app.owner.token)).body['code']).toBe('NOT_FOUND');
  });

  it('answers 404 for an endpoint that was deleted', async () => {
    const gone = await app.make({ subscriptions: [{ pattern: 'x' }] });
    await app.call('DELETE', `/${gone.id}`);
    const { body: answer } = await ask(gone.id, gone.subscriptions[0]!.subscriptionId, app.owner.token);
    expect(answer['code']).toBe('NOT_FOUND');
  });

  it('needs its scope', async () => {
    const scope: Scope = method === 'GET' ? 'endpoints:read' : 'endpoints:write';
    const other: Scope = method === 'GET' ? 'endpoints:write' : 'endpoints:read';
    const tenantId = app.owner.tenant.tenantId as TenantId;
    const { key } = await createApiKey(test.database.requests, tenantId, {
      name: 'k',
      scopes: [other],
      actor: 'cli',
    });
    const { status, body: answer } = await ask(endpointId, subscription.subscriptionId, key);
    expect({ status, scope: answer['scope'] }).toEqual({ status: 403, scope });
  });
});

describe('another tenant', () => {
  it('sees nothing in its lists, with any cursor', async () => {
    const cursor = Buffer.from(JSON.stringify([UNKNOWN_ID.replace('0189', 'ffff')])).toString('base64url');
    for (const query of ['', `?cursor=${cursor}`]) {
      const { body } = await app.call<Page<Endpoint>>('GET', query, undefined, stranger.token);
      expect(body).toEqual({ data: [], nextCursor: null });
    }
  });
});

it('the values of headers are shown only to those who may read secrets', async () => {
  for (const role of ['viewer', 'developer'] as const) {
    const reader = await app.tenants.addUser(app.owner, role);
    for (const path of [`/${endpointId}`, '']) {
      const seen = await app.call('GET', path, undefined, reader.token);
      expect(seen.text).not.toContain('hush');
      expect(seen.text).toContain('"Authorization":"********"');
    }
  }
  const admin = await app.tenants.addUser(app.owner, 'admin');
  for (const path of [`/${endpointId}`, ''])
    expect((await app.call('GET', path, undefined, admin.token)).text).toContain('Bearer hush');
});
