import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { NewApiKey } from './api-key.schemas.ts';
import { type Member, TenantsApp } from './tenants.fixture.ts';

let test: TestDatabase;
let tenants: TenantsApp;
let mine: Member;
let theirs: Member;
let theirKey: NewApiKey;

beforeAll(async () => {
  test = await testDatabase();
  tenants = await TenantsApp.start(test.database);
  mine = await tenants.signUp('Mine');
  theirs = await tenants.signUp('Theirs');
  const made = await tenants.call<NewApiKey>('POST', '/v1/api-keys', {
    token: theirs.token,
    body: { name: 'theirs', scopes: ['keys:read'] },
  });
  theirKey = made.body;
});
afterAll(async () => {
  await tenants.close();
  await test.close();
});

const routes = [
  { method: 'GET', path: '/v1/users/:id' },
  { method: 'PATCH', path: '/v1/users/:id', body: { disabled: true } },
  { method: 'PATCH', path: '/v1/users/:id', body: { role: 'viewer' } },
  { method: 'DELETE', path: '/v1/users/:id' },
  { method: 'POST', path: '/v1/users/:id/password-reset' },
  { method: 'POST', path: '/v1/api-keys/:id/rotate', body: { overlapSeconds: 0 } },
  { method: 'DELETE', path: '/v1/api-keys/:id' },
] as const;

const ids: Record<string, () => string> = {
  foreign: () => '',
  unknown: () => '01890a5d-ac96-774b-bcce-b302099a8057',
  malformed: () => 'not-an-id',
  'upper-case': () => theirs.user.userId.toUpperCase(),
  'with a NUL': () => 'a%00b',
};

describe.each(routes)('$method $path', ({ method, path, ...rest }) => {
  it.each(Object.keys(ids))('answers 404 for an ID that is %s', async (kind) => {
    const foreign = path.startsWith('/v1/users') ? theirs.user.userId : theirKey.apiKey.apiKeyId;
    const id = kind === 'foreign' ? foreign : ids[kind]!();
    const answer = await tenants.call(method, path.replace(':id', id), { token: mine.token, ...rest });
    expect({ status: answer.status, code: answer.body['code'] }).toEqual({ status: 404, code: 'NOT_FOUND' });
  });
});

describe('one tenant', () => {
  it('does not change another', async () => {
    const me = await tenants.call('GET', '/v1/me', { token: theirs.token });
    expect(me.body).toMatchObject({ user: { role: 'owner' } });
    expect((await tenants.call('GET', '/v1/me', { token: theirKey.key })).status).toBe(200);
  });

  it.each(['/v1/users', '/v1/api-keys', '/v1/tenant', '/v1/me'])(
    'sees nothing of another in %s',
    async (url) => {
      const { status, text } = await tenants.call('GET', url, { token: mine.token });
      expect(status).toBe(200);
      for (const foreign of [
        theirs.tenant.tenantId,
        theirs.user.userId,
        theirs.email,
        theirKey.apiKey.apiKeyId,
      ])
        expect(text).not.toContain(foreign);
    },
  );

  it('gets no further with a cursor of another', async () => {
    const cursor = Buffer.from(JSON.stringify([theirKey.apiKey.apiKeyId])).toString('base64url');
    const { body } = await tenants.call('GET', `/v1/api-keys?cursor=${cursor}`, { token: mine.token });
    expect(body).toEqual({ data: [], nextCursor: null });
  });
});
