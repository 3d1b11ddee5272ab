import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import { loadConfig } from '../config/index.ts';
import { MemoryCoordination } from '../coordination/memory/index.ts';
import { systemClock } from '../shared/clock.ts';
import { newId, type TenantId } from '../shared/ids.ts';
import { createTenant } from '../tenants/index.ts';
import type { Acceptor } from './acceptor.ts';
import { EventsService, type IngestLimits } from './events.service.ts';

let test: TestDatabase;
let events: EventsService;
let tenantId: TenantId;
let limits: IngestLimits;

beforeAll(async () => void (test = await testDatabase()));
afterAll(() => test.close());
beforeEach(async () => {
  tenantId = await createTenant(test.database.requests, { name: 'Test' });
  limits = { ingestRate: 1, ingestBurst: 3 };
  events = new EventsService({
    database: test.database,
    acceptor: {} as Acceptor,
    coordination: new MemoryCoordination(systemClock),
    config: loadConfig({}),
    limitsOf: () => limits,
    admission: { refusal: () => null },
    onRefused: () => undefined,
  });
});

describe('admission', () => {
  it('refuses a batch above the burst for good, because no wait would let it in, and uses up nothing', async () => {
    await expect(events.admit(tenantId, 4)).rejects.toMatchObject({
      code: 'BATCH_TOO_LARGE',
      message: expect.stringContaining('at most 3 at once') as string,
    });
    await events.admit(tenantId, 3);
    await expect(events.admit(tenantId, 3)).rejects.toMatchObject({ code: 'RATE_LIMITED' });
  });
});

it('a test event whose payload is nested deeper than can be written is refused', async () => {
  const endpointId = newId(Date.now());
  await test.database.requests.query(
    `INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url) VALUES ($1, $2, 'https://example.com')`,
    [endpointId, tenantId],
  );
  const depth = 200_000;
  const payload = JSON.parse('['.repeat(depth) + ']'.repeat(depth)) as unknown;
  await expect(events.sendTest(tenantId, endpointId, { payload })).rejects.toMatchObject({
    code: 'EVENT_INVALID',
    occurrence: { fields: [{ field: 'payload' }] },
  });
});

it('bounds of a list that no clock shows are refused by name', async () => {
  const query = { limit: 10, from: '2016-12-31T23:59:60Z' };
  await expect(events.list(tenantId, query)).rejects.toMatchObject({
    code: 'REQUEST_INVALID',
    occurrence: { fields: [{ field: 'querystring/from' }] },
  });
});
