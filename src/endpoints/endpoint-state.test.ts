import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { Page } from '../platform/http/page.ts';
import type { TenantId } from '../shared/ids.ts';
import type { Endpoint } from './endpoint.schemas.ts';
import { EndpointsApp, type Refusal, UNKNOWN_ID } from './endpoints.fixture.ts';
import { endpointExists, findDeletedEndpointIds } from './index.ts';

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
beforeEach(() => {
  app.due.length = 0;
});

const act = (id: string, action: string, body?: unknown) =>
  app.call<Endpoint & Refusal>('POST', `/${id}/${action}`, body);

describe('the state of an endpoint', () => {
  it.each([
    ['pause', 'paused'],
    ['disable', 'disabled'],
  ])('%s lets its deliveries wait', async (action, state) => {
    const { id } = await app.make();
    await app.target(id);
    const { status, body } = await act(id, action, { reason: 'maintenance' });
    expect({ status, state: body.state, reason: body.stateReason }).toEqual({
      status: 200,
      state,
      reason: 'maintenance',
    });
    expect((await app.target(id)).state).toBe(state);
    expect(app.due).toEqual([]);
  });

  it.each(['resume', 'enable'])('%s makes it active and tells delivery, from any state', async (action) => {
    for (const before of ['pause', 'disable']) {
      const { id } = await app.make();
      await act(id, before, { reason: 'why' });
      app.due.length = 0;
      const { body } = await act(id, action);
      expect([body.state, body.stateReason]).toEqual(['active', null]);
      expect((await app.target(id)).state).toBe('active');
      expect(app.due).toEqual([id]);
    }
  });

  it('is not changed by saying it again, unless the reason is another', async () => {
    const { id } = await app.make();
    await act(id, 'pause', { reason: 'first' });
    const version = await app.version(id);
    expect((await act(id, 'pause')).body.stateReason).toBe('first');
    expect((await act(id, 'pause', { reason: 'first' })).body.stateReason).toBe('first');
    expect(await app.version(id)).toBe(version);
    expect((await act(id, 'pause', { reason: 'second' })).body.stateReason).toBe('second');
    expect(await app.version(id)).toBe(version + 1);
    await act(id, 'resume');
    expect((await act(id, 'resume')).status).toBe(200);
    expect(await app.version(id)).toBe(version + 2);
  });

  it('does not concern routing', async () => {
    const { id } = await app.make({ subscriptions: [{ pattern: 'waits' }] });
    const before = await app.routes('waits');
    await act(id, 'disable');
    expect(await app.routes('waits')).toEqual(before);
  });

  it.each([{ reason: '' }, { reason: 'a\nb' }, { reason: 'x'.repeat(501) }, { why: 'x' }])(
    'refuses %j',
    async (wrong) => {
      const { id } = await app.make();
      expect((await act(id, 'pause', wrong)).body.code).toBe('REQUEST_INVALID');
    },
  );
});

describe('deleting an endpoint', () => {
  it('ends its subscriptions, its secrets and everything that is known of it', async () => {
    const { id, endpoint } = await app.make({ subscriptions: [{ pattern: 'gone' }] });
    const before = await app.routes('gone');
    expect(before.routes).toHaveLength(1);
    await app.target(id);
    expect((await app.call('DELETE', `/${id}`)).status).toBe(204);
    expect(await app.routes('gone')).toEqual({ version: before.version + 1, routes: [] });
    expect(await app.target(id)).toMatchObject({ state: 'deleted', secrets: [], version: 2 });
    expect((await app.call<Page<Endpoint>>('GET', '?limit=200')).body.data).not.toContainEqual(endpoint);
    for (const table of ['endpoint_subscriptions', 'endpoint_secrets'])
      expect(await app.tenants.sql(`SELECT FROM relayops.${table} WHERE endpoint_id = $1`, id)).toEqual([]);
  });

  it('is seen by other features', async () => {
    const db = test.database.requests;
    const tenantId = app.owner.tenant.tenantId as TenantId;
    const other = (await app.tenants.signUp()).tenant.tenantId as TenantId;
    const [kept, first, second] = [await app.make(), await app.make(), await app.make()];
    for (const { id } of [first, second]) await app.call('DELETE', `/${id}`);
    const exists = (tenant: TenantId, id: string) => endpointExists(db, tenant, id);
    expect(await Promise.all([exists(tenantId, kept.id), exists(other, kept.id)])).toEqual([true, false]);
    for (const id of [first.id, UNKNOWN_ID, 'x', '']) expect(await exists(tenantId, id)).toBe(false);

    const all = await findDeletedEndpointIds(db, 100_000);
    expect(all).toEqual([...all].sort());
    expect(all).toEqual(expect.arrayContaining([first.id, second.id]));
    expect(all).not.toContain(kept.id);
    const page = await findDeletedEndpointIds(db, 1, all[0]);
    expect(page).toEqual([all[1]]);
    expect(await findDeletedEndpointIds(db, 10, all.at(-1))).toEqual([]);
  });
});
