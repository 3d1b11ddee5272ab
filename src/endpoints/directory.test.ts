import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { EndpointId } from '../shared/ids.ts';
import { EndpointsApp, UNKNOWN_ID } from './endpoints.fixture.ts';
import { SecretBox } from './index.ts';

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

it('an endpoint that is not there is absent, and the others are found', async () => {
  const { id } = await app.make();
  const absent = UNKNOWN_ID as EndpointId;
  expect([...(await app.directory.targets([absent, id])).keys()]).toEqual([id]);
});

it('a known endpoint is in the answer even when others push it out', async () => {
  const { id } = await app.make();
  await app.target(id);
  const rows = await app.tenants.sql(
    `INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url)
     SELECT gen_random_uuid(), $1, 'https://example.com/' FROM generate_series(1, 50000) RETURNING endpoint_id`,
    (await app.tenants.signUp('Huge')).tenant.tenantId,
  );
  const others = rows.map((row) => row['endpoint_id'] as EndpointId);
  const found = await app.directory.targets([id, ...others]);
  expect(found.size).toBe(50_001);
  expect(found.get(id)?.endpointId).toBe(id);
});

it('a secret that does not open makes its own endpoint wait and no other, and a rotation mends it', async () => {
  const [broken, fine] = [await app.make(), await app.make()];
  const foreign = new SecretBox(randomBytes(32).toString('base64')).seal(randomBytes(32), broken.id);
  await app.tenants.sql(
    'UPDATE relayops.endpoint_secrets SET ciphertext = $2 WHERE endpoint_id = $1',
    broken.id,
    foreign,
  );
  const found = await app.directory.targets([broken.id, fine.id]);
  expect(found.get(broken.id)).toMatchObject({ state: 'disabled', secrets: [] });
  expect(found.get(fine.id)).toMatchObject({ state: 'active', secrets: [{ expiresAtMs: null }] });
  expect(app.errors.map(String)).toEqual([expect.stringContaining(broken.id)]);

  await app.call('POST', `/${broken.id}/rotate-secret`, { overlapSeconds: 0 });
  expect(await app.target(broken.id)).toMatchObject({ state: 'active', secrets: [{ expiresAtMs: null }] });
});
