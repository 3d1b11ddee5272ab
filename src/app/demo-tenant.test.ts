import { once } from 'node:events';
import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import { openDemoTenant } from './demo-tenant.ts';
import type { EmbeddedHome, EmbeddedSecrets } from './embedded-home.ts';
import type { Runtime } from './runtime.ts';

const KEPT = { apiKey: 'rok_kept', endpointId: 'kept', endpointSecret: 'whsec_kept' };

let test: TestDatabase;
let server: Server;
/** Status of the next answers to PATCH. */
let status: number;
let secrets: EmbeddedSecrets;

beforeAll(async () => void (test = await testDatabase()));
afterAll(() => test.close());
beforeEach(async () => {
  secrets = { jwtSecret: '', secretsKey: '', demo: KEPT };
  server = createServer((request, response) => {
    const made = JSON.stringify({ endpoint: { endpointId: 'made' }, secret: 'whsec_made' });
    response.writeHead(request.method === 'PATCH' ? status : 201, { connection: 'close' }).end(made);
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
});
afterEach(() => server.close());

const open = () => {
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
  const home = {
    secrets: async () => secrets,
    keep: async (kept: EmbeddedSecrets) => void (secrets = kept),
  } as unknown as EmbeddedHome;
  return openDemoTenant({ database: test.database } as Runtime, url, 'http://127.0.0.1:1', home);
};

it('is kept while its key and its endpoint are known', async () => {
  status = 200;
  expect(await open()).toEqual(KEPT);
});

it.each([429, 500, 503])('is not given up for an answer of %i', async (answer) => {
  status = answer;
  await expect(open()).rejects.toThrow(`could not be changed: ${answer}`);
  expect(secrets.demo).toEqual(KEPT);
});

it.each([401, 404])('is made anew when the database does not know it (%i)', async (answer) => {
  status = answer;
  const demo = await open();
  expect(demo).toMatchObject({ endpointId: 'made', endpointSecret: 'whsec_made' });
  expect(demo.apiKey).not.toBe(KEPT.apiKey);
  expect(secrets.demo).toEqual(demo);
});
