import { afterAll, beforeAll, beforeEach, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import { systemClock } from '../shared/clock.ts';
import { newId, type TenantId } from '../shared/ids.ts';
import { createTenant } from '../tenants/index.ts';
import type { Transport } from '../transport/port.ts';
import { DeliveryService } from './delivery.service.ts';
import { ReplayService } from './replay.service.ts';

let test: TestDatabase;
let replays: ReplayService;
let tenantId: TenantId;

beforeAll(async () => void (test = await testDatabase()));
afterAll(() => test.close());
beforeEach(async () => {
  tenantId = await createTenant(test.database.requests, { name: 'Test' });
  replays = new ReplayService({
    database: test.database,
    deliveries: new DeliveryService(test.database),
    transport: { enqueue: async () => undefined, announce: () => undefined } as unknown as Transport,
    clock: systemClock,
    wake: () => undefined,
  });
});

/** A dead delivery. @returns its ID */
async function dead(endpoint: { readonly deleted: boolean }): Promise<string> {
  const [endpointId, id] = [newId(Date.now()), newId(Date.now())];
  const db = test.database.requests;
  await db.query(
    `INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url, deleted_at)
     VALUES ($1, $2, 'https://example.com', CASE WHEN $3 THEN now() END)`,
    [endpointId, tenantId, endpoint.deleted],
  );
  await db.query(
    `INSERT INTO relayops.deliveries (tenant_id, event_id, endpoint_id, delivery_id, event_type, state, finished_at, unsuccessful_at)
     VALUES ($1, $2, $3, $2, 'a.b', 'dead', now(), now())`,
    [tenantId, id, endpointId],
  );
  return id;
}

const asker = () => ({ tenantId, actor: 'test' });

it('one delivery of a deleted endpoint is refused, since nobody would send it', async () => {
  const id = await dead({ deleted: true });
  await expect(replays.one(asker(), id)).rejects.toMatchObject({
    code: 'DELIVERY_NOT_REPLAYABLE',
    message: 'Its endpoint is deleted.',
  });
});

it('one delivery of an endpoint that is there is reopened', async () => {
  await replays.one(asker(), await dead({ deleted: false }));
});

it('bounds that no clock shows are refused by name', async () => {
  const leap = '2016-12-31T23:59:60Z';
  for (const field of ['from', 'to'])
    await expect(replays.count(tenantId, { [field]: leap })).rejects.toMatchObject({
      code: 'REQUEST_INVALID',
      occurrence: { fields: [{ field: `body/${field}` }] },
    });
});
