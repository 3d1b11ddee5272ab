import { createCipheriv, randomBytes } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { EndpointId } from '../shared/ids.ts';
import type { Endpoint, NewEndpoint } from './endpoint.schemas.ts';
import { EndpointsApp, type Method, type Refusal, URL_OK } from './endpoints.fixture.ts';
import { sealPlainHeaders } from './reseal.ts';

const HEADERS = { Authorization: 'Bearer hush', 'X-Team': 'a b' };
const MASKED = { Authorization: '********', 'X-Team': '********' };

let test: TestDatabase;
let app: EndpointsApp;
let developer: string;

beforeAll(async () => {
  test = await testDatabase();
  app = await EndpointsApp.start(test.database);
  developer = (await app.tenants.addUser(app.owner, 'developer')).token;
});
afterAll(async () => {
  await app.close();
  await test.close();
});

const asDeveloper = <Body = Endpoint & Refusal>(method: Method, path: string, body?: unknown) =>
  app.call<Body>(method, path, body, developer);
const patch = (id: string, body: unknown) => app.call<Endpoint & Refusal>('PATCH', `/${id}`, body);
const sent = async (id: EndpointId) => {
  app.directory.forgetTarget(id);
  return (await app.target(id)).headers;
};
const row = async (id: string) => {
  const [found] = await app.tenants.sql(
    'SELECT headers, sealed_headers FROM relayops.webhook_endpoints WHERE endpoint_id = $1',
    id,
  );
  return found as { headers: Record<string, string>; sealed_headers: Record<string, string> };
};

describe('header values', () => {
  it('are not readable in the database, and delivered as they are', async () => {
    const { id, endpoint } = await app.make({ headers: HEADERS });
    expect(endpoint.headers).toEqual(HEADERS);
    const stored = await row(id);
    expect(stored.headers).toEqual({});
    expect(Object.keys(stored.sealed_headers).sort()).toEqual(Object.keys(HEADERS));
    for (const sealed of Object.values(stored.sealed_headers))
      expect(Buffer.from(sealed, 'base64').includes('hush')).toBe(false);
    expect(await sent(id)).toEqual(HEADERS);
  });

  it('cannot be moved to another header or endpoint', async () => {
    const [one, two] = [await app.make({ headers: HEADERS }), await app.make({ headers: { 'X-Team': 'c' } })];
    const { sealed_headers: sealed } = await row(one.id);
    for (const moved of [
      { 'X-Team': sealed['X-Team'] },
      { 'X-Other': (await row(two.id)).sealed_headers['X-Team'] },
    ]) {
      await app.tenants.sql(
        'UPDATE relayops.webhook_endpoints SET sealed_headers = $2 WHERE endpoint_id = $1',
        two.id,
        JSON.stringify(moved),
      );
      app.directory.forgetTarget(two.id);
      expect(await app.target(two.id)).toMatchObject({ state: 'disabled', headers: {} });
    }
  });

  it('are masked in every answer to those who may not read secrets', async () => {
    const made = await asDeveloper<NewEndpoint>('POST', '', { url: URL_OK, headers: HEADERS });
    expect(made.status).toBe(201);
    const { endpointId: id } = made.body.endpoint;
    const answers = [
      made,
      await asDeveloper('GET', `/${id}`),
      await asDeveloper('GET', ''),
      await asDeveloper('PATCH', `/${id}`, { name: 'n' }),
      await asDeveloper('POST', `/${id}/pause`, {}),
      await asDeveloper('POST', `/${id}/resume`, {}),
    ];
    for (const { text } of answers) {
      expect(text).not.toContain('hush');
      expect(text).toContain('"Authorization":"********"');
    }
    expect(await sent(id as EndpointId)).toEqual(HEADERS);
  });

  it('leave with their endpoint', async () => {
    const { id } = await app.make({ headers: HEADERS });
    await app.call('DELETE', `/${id}`);
    expect(await row(id)).toEqual({ headers: {}, sealed_headers: {} });
  });
});

describe('a masked value in a change', () => {
  it('keeps the value of that header, in any case', async () => {
    const { id } = await app.make({ headers: HEADERS });
    const changed = await asDeveloper('PATCH', `/${id}`, { headers: { ...MASKED, 'X-New': '1' } });
    expect(changed.body.headers).toEqual({ ...MASKED, 'X-New': '********' });
    expect(await sent(id)).toEqual({ ...HEADERS, 'X-New': '1' });
    await patch(id, { headers: { authorization: '********' } });
    expect(await sent(id)).toEqual({ authorization: HEADERS.Authorization });
  });

  it('is refused by name where there is no value to keep', async () => {
    const { id } = await app.make({ headers: HEADERS });
    for (const refused of [
      await patch(id, { headers: { ...MASKED, 'X-New': '********' } }),
      await app.call<Refusal>('POST', '', { url: URL_OK, headers: { 'X-New': '********' } }),
    ]) {
      expect(refused.status).toBe(400);
      expect(refused.body).toMatchObject({
        code: 'ENDPOINT_SETTINGS_INVALID',
        errors: [{ field: 'headers/X-New', fix: 'Send the value itself.' }],
      });
    }
    expect(await sent(id)).toEqual(HEADERS);
  });

  it('sends no value that the caller may not read to another origin', async () => {
    const { id } = await app.make({ headers: HEADERS });
    const url = 'https://elsewhere.example.com/in';
    for (const change of [{ url }, { url, headers: { 'X-Team': '********' } }]) {
      const { status, body } = await asDeveloper('PATCH', `/${id}`, change);
      expect({ status, field: body.errors[0]?.field }).toEqual({ status: 400, field: 'url' });
    }
    expect((await asDeveloper('PATCH', `/${id}`, { url: `${URL_OK}/other` })).status).toBe(200);
    expect((await asDeveloper('PATCH', `/${id}`, { url, headers: { 'X-Own': '1' } })).status).toBe(200);
    expect(await sent(id)).toEqual({ 'X-Own': '1' });
    expect((await patch(id, { url: URL_OK })).status).toBe(200);
  });
});

describe('headers of the version before', () => {
  const SECRETS_KEY = Buffer.alloc(32, 7);
  let id: EndpointId;

  beforeEach(async () => {
    ({ id } = await app.make());
    const nonce = randomBytes(12);
    const cipher = createCipheriv('aes-256-gcm', SECRETS_KEY, nonce).setAAD(Buffer.from(id));
    const sealed = Buffer.concat([
      nonce,
      cipher.update(Buffer.alloc(32, 3)),
      cipher.final(),
      cipher.getAuthTag(),
    ]);
    await app.tenants.sql(
      'UPDATE relayops.endpoint_secrets SET ciphertext = $2 WHERE endpoint_id = $1',
      id,
      sealed,
    );
    await app.tenants.sql(
      'UPDATE relayops.webhook_endpoints SET headers = $2 WHERE endpoint_id = $1',
      id,
      JSON.stringify(HEADERS),
    );
  });

  /** A process of the version before must not open the secret once it would send without the headers. */
  const isSealed = async () => {
    const [secret] = await app.tenants.sql(
      'SELECT ciphertext FROM relayops.endpoint_secrets WHERE endpoint_id = $1',
      id,
    );
    return app.secretBox.isCurrent(secret!['ciphertext'] as Buffer);
  };

  it('are read, masked and delivered as they are', async () => {
    expect(await sent(id)).toEqual(HEADERS);
    expect((await asDeveloper('GET', `/${id}`)).body.headers).toEqual(MASKED);
    expect((await app.call<Endpoint>('GET', `/${id}`)).body.headers).toEqual(HEADERS);
    expect(await isSealed()).toBe(false);
  });

  it('are sealed by a change, together with the secret', async () => {
    await patch(id, { name: 'changed' });
    expect((await row(id)).headers).toEqual({});
    expect(await sent(id)).toEqual(HEADERS);
    expect(await isSealed()).toBe(true);
  });

  it('are sealed in bounded batches, together with the secret', async () => {
    await app.tenants.sql("UPDATE relayops.webhook_endpoints SET headers = '{}' WHERE endpoint_id <> $1", id);
    expect(await sealPlainHeaders(test.database, app.secretBox, 10)).toBe(1);
    expect(await sealPlainHeaders(test.database, app.secretBox, 10)).toBe(0);
    expect((await row(id)).headers).toEqual({});
    expect(await sent(id)).toEqual(HEADERS);
    expect(await isSealed()).toBe(true);
  });

  it('win over sealed ones: a process of the version before has written them later', async () => {
    await patch(id, { name: 'changed' });
    await app.tenants.sql(
      `UPDATE relayops.webhook_endpoints SET headers = '{"X-Later": "1"}' WHERE endpoint_id = $1`,
      id,
    );
    expect(await sent(id)).toEqual({ 'X-Later': '1' });
  });
});
