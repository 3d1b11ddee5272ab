import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { EndpointId } from '../shared/ids.ts';
import { EndpointsApp, type Refusal, secretOf } from './endpoints.fixture.ts';
import { formatSecret } from './secret-box.ts';
import type { CurrentSecret, EndpointSecrets, RotatedSecret } from './secret.schemas.ts';
import { MAX_SECRETS_IN_FORCE } from './secret.service.ts';

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

const rotate = (id: string, body?: unknown) =>
  app.call<RotatedSecret & Refusal>('POST', `/${id}/rotate-secret`, body);
const list = async (id: string) => (await app.call<EndpointSecrets>('GET', `/${id}/secrets`)).body.data;
const signing = async (id: EndpointId) =>
  (await app.target(id)).secrets.map(({ key }) => formatSecret(key.export()));
const until = (moment: string | null, from: string) => Date.parse(moment!) - Date.parse(from);

describe('rotating a secret', () => {
  it('lets the old one sign beside the new one for the overlap', async () => {
    const { id, secret: old } = await app.make();
    expect(await signing(id)).toEqual([old]);
    const { status, body, headers } = await rotate(id, { overlapSeconds: 60 });
    expect(status).toBe(201);
    expect(headers['cache-control']).toBe('no-store');
    expect(body.secret).toMatch(/^whsec_/);
    expect(body.secret).not.toBe(old);
    expect(await signing(id)).toEqual([body.secret, old]);
    const [newest, previous] = body.secrets;
    expect(newest?.expiresAt).toBeNull();
    expect(Math.round(until(previous!.expiresAt, newest!.createdAt) / 1_000)).toBe(60);
    expect((await app.target(id)).secrets[1]?.expiresAtMs).toBe(Date.parse(previous!.expiresAt!));
    expect((await app.target(id)).version).toBe(2);

    await app.tenants.sql(
      'UPDATE relayops.endpoint_secrets SET expires_at = now() WHERE secret_id = $1',
      previous!.secretId,
    );
    app.directory.forgetTarget(id);
    expect(await signing(id)).toEqual([body.secret]);
  });

  it('without an overlap ends the old one at once', async () => {
    const { id } = await app.make();
    await app.target(id);
    const { body } = await rotate(id, { overlapSeconds: 0 });
    expect(await signing(id)).toEqual([body.secret]);
  });

  it('takes the configured overlap when the request has no body', async () => {
    const { id } = await app.make();
    const { body } = await rotate(id);
    expect(Math.round(until(body.secrets[1]!.expiresAt, body.secrets[0]!.createdAt) / 1_000)).toBe(86_400);
  });

  it('never lets an old one go on for longer than it would have', async () => {
    const { id } = await app.make();
    const first = (await rotate(id, { overlapSeconds: 60 })).body;
    const second = (await rotate(id, { overlapSeconds: 3_600 })).body;
    expect(second.secrets).toHaveLength(3);
    expect(second.secrets[2]).toEqual(first.secrets[1]);
    expect(second.secrets[1]).toMatchObject({ secretId: first.secrets[0]!.secretId });
    const third = (await rotate(id, { overlapSeconds: 0 })).body;
    expect(await signing(id)).toEqual([third.secret]);
  });

  it('takes a secret that somebody brings, of the right form', async () => {
    const { id, secret: old } = await app.make();
    for (const wrong of ['', 'x', secretOf(23), secretOf(65)]) {
      const { status, body } = await rotate(id, { secret: wrong });
      expect({ status, code: body.code, field: body.errors[0]?.field }).toEqual({
        status: 400,
        code: 'ENDPOINT_SECRET_INVALID',
        field: 'secret',
      });
    }
    expect((await rotate(id, { secret: secretOf(48, 9) })).body.secret).toBe(secretOf(48, 9));
    expect(await signing(id)).toEqual([secretOf(48, 9), old]);
  });

  it.each([{ overlapSeconds: -1 }, { overlapSeconds: 1.5 }, { overlapSeconds: 31_536_001 }, { overlap: 1 }])(
    'refuses %j',
    async (wrong) => {
      const { id } = await app.make();
      expect((await rotate(id, wrong)).body.code).toBe('REQUEST_INVALID');
      expect(await list(id)).toHaveLength(1);
    },
  );

  it('keeps the number of secrets in force bounded, and can always end them', async () => {
    const { id } = await app.make();
    for (let i = 1; i < MAX_SECRETS_IN_FORCE; i++) expect((await rotate(id)).status).toBe(201);
    const before = await list(id);
    const { status, body } = await rotate(id);
    expect({ status, code: body.code }).toEqual({ status: 409, code: 'SECRET_LIMIT_REACHED' });
    expect(await list(id)).toEqual(before);
    expect((await rotate(id, { overlapSeconds: 0 })).status).toBe(201);
    expect((await rotate(id, { overlapSeconds: 0 })).status).toBe(201);
    expect(await list(id)).toHaveLength(2);
  });

  it('leaves exactly one without an end when several come at once, and it is the newest', async () => {
    const { id } = await app.make();
    await Promise.all(Array.from({ length: 4 }, () => rotate(id, { overlapSeconds: 60 })));
    const [newest, ...older] = await list(id);
    expect(newest?.expiresAt).toBeNull();
    expect(older.map(({ expiresAt }) => typeof expiresAt)).toEqual(['string', 'string', 'string', 'string']);
  });
});

describe('the list of secrets', () => {
  it('has no secret in it', async () => {
    const { id, secret } = await app.make();
    const rotated = (await rotate(id)).body;
    const { text, body } = await app.call<EndpointSecrets>('GET', `/${id}/secrets`);
    expect(body.data).toEqual(rotated.secrets);
    for (const known of [secret, rotated.secret]) expect(text).not.toContain(known.slice('whsec_'.length));
    expect(Object.keys(body.data[0]!).sort()).toEqual(['createdAt', 'expiresAt', 'secretId']);
  });
});

it('a secret is not readable in the database', async () => {
  const { id, secret } = await app.make();
  const [row] = await app.tenants.sql(
    'SELECT ciphertext FROM relayops.endpoint_secrets WHERE endpoint_id = $1',
    id,
  );
  const bytes = Buffer.from(secret.slice('whsec_'.length), 'base64');
  expect((row!['ciphertext'] as Buffer).includes(bytes.subarray(0, 8))).toBe(false);
});

describe('reading the current secret', () => {
  const read = (id: string, token?: string) =>
    app.call<CurrentSecret & Refusal>('GET', `/${id}/secrets/current`, undefined, token);

  it('needs the scope endpoints:secrets, and is reported', async () => {
    const { id } = await app.make();
    const rotated = (await rotate(id)).body;
    const { status, body, headers } = await read(id);
    expect(status).toBe(200);
    expect(headers['cache-control']).toBe('no-store');
    expect(body).toEqual({ ...rotated.secrets[0], secret: rotated.secret });
    expect(app.read.at(-1)).toEqual({
      tenantId: app.owner.tenant.tenantId,
      endpointId: id,
      secretId: rotated.secrets[0]!.secretId,
      actor: expect.stringMatching(/^user:/) as string,
    });
    const reports = app.read.length;
    const developer = await app.tenants.addUser(app.owner, 'developer');
    const refused = await read(id, developer.token);
    expect(refused.status).toBe(403);
    expect(refused.text).not.toContain('whsec_');
    const stranger = await app.tenants.signUp('Stranger');
    expect((await read(id, stranger.token)).status).toBe(404);
    expect(app.read).toHaveLength(reports);
  });
});
