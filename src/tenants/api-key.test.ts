import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { TenantId } from '../shared/ids.ts';
import type { ApiKey, NewApiKey, RotatedApiKey } from './api-key.schemas.ts';
import { createApiKey } from './index.ts';
import type { Page } from '../platform/http/page.ts';
import { type Member, TenantsApp } from './tenants.fixture.ts';

let test: TestDatabase;
let tenants: TenantsApp;
let owner: Member;

beforeAll(async () => {
  test = await testDatabase();
  tenants = await TenantsApp.start(test.database);
  owner = await tenants.signUp();
});
afterAll(async () => {
  await tenants.close();
  await test.close();
});

interface Refusal {
  readonly code: string;
  readonly scopes: string[];
}

const make = (body: Record<string, unknown> = {}, token = owner.token) =>
  tenants.call<NewApiKey & Refusal>('POST', '/v1/api-keys', {
    token,
    body: { name: 'billing', scopes: ['keys:read'], ...body },
  });
const rotate = (apiKeyId: string, body?: Record<string, unknown>, token = owner.token) =>
  tenants.call<RotatedApiKey & Refusal>('POST', `/v1/api-keys/${apiKeyId}/rotate`, { token, body });
const revoke = (apiKeyId: string) =>
  tenants.call('DELETE', `/v1/api-keys/${apiKeyId}`, { token: owner.token });
const statusWith = async (key: string) => (await tenants.call('GET', '/v1/me', { token: key })).status;
const inOneHour = (): string => new Date(Date.now() + 3_600_000).toISOString();

describe('making a key', () => {
  it('shows it once, with what it may do', async () => {
    const { status, body, headers } = await make({ expiresAt: inOneHour() });
    expect(status).toBe(201);
    expect(headers['cache-control']).toBe('no-store');
    expect(body.key).toMatch(/^rok_[0-9A-Za-z]{8}_[0-9A-Za-z]{43}$/);
    expect(body.apiKey).toMatchObject({
      name: 'billing',
      prefix: body.key.slice(0, 12),
      scopes: ['keys:read'],
      createdBy: `user:${owner.user.userId}`,
      revokedAt: null,
      lastUsedAt: null,
    });
    expect(await statusWith(body.key)).toBe(200);
  });

  it('gives no scope that the caller lacks', async () => {
    const limited = await make({ scopes: ['keys:write', 'keys:read'] });
    const wider = await make({ scopes: ['keys:read', 'events:write'] }, limited.body.key);
    expect({ status: wider.status, code: wider.body.code, scopes: wider.body.scopes }).toEqual({
      status: 403,
      code: 'SCOPE_NOT_GRANTABLE',
      scopes: ['events:write'],
    });
    expect((await make({ scopes: ['keys:read'] }, limited.body.key)).status).toBe(201);
  });

  it.each([
    ['an expiry that has passed', { expiresAt: '2020-01-01T00:00:00Z' }],
    ['a leap second', { expiresAt: '2030-06-30T23:59:60Z' }],
    ['no scope', { scopes: [] }],
    ['an unknown scope', { scopes: ['everything'] }],
    ['a tenant of its choice', { tenantId: 'x' }],
  ])('refuses %s', async (_name, wrong) => {
    const { status, body } = await make(wrong);
    expect({ status, code: body.code }).toEqual({ status: 400, code: 'REQUEST_INVALID' });
  });

  it('is not for developers', async () => {
    const developer = await tenants.addUser(owner, 'developer');
    expect((await make({}, developer.token)).body).toMatchObject({
      code: 'SCOPE_MISSING',
      scope: 'keys:write',
    });
  });
});

describe('the list of keys', () => {
  it('has every key once, newest first, and no secret', async () => {
    const member = await tenants.signUp();
    const made = [];
    for (let i = 0; i < 5; i++) {
      tenants.clock.ms += 1;
      made.unshift((await make({ name: `k${i}` }, member.token)).body);
    }
    const first = await tenants.call<Page<ApiKey>>('GET', '/v1/api-keys?limit=3', { token: member.token });
    const late = await make({ name: 'late' }, member.token);
    expect(late.status).toBe(201);
    const second = await tenants.call<Page<ApiKey>>(
      'GET',
      `/v1/api-keys?limit=3&cursor=${first.body.nextCursor}`,
      { token: member.token },
    );
    expect(second.body.nextCursor).toBeNull();
    expect([...first.body.data, ...second.body.data]).toEqual(made.map(({ apiKey }) => apiKey));
    for (const { key } of made) {
      expect(first.text + second.text).not.toContain(key.slice(13));
    }
    expect(first.text + second.text).not.toMatch(/hash/i);
  });
});

describe('rotating a key', () => {
  it('makes one with the same name and scopes, and the old one goes on for the overlap', async () => {
    const old = (await make({ scopes: ['keys:read', 'stats:read'] })).body;
    const { status, body } = await rotate(old.apiKey.apiKeyId, { overlapSeconds: 60 });
    expect(status).toBe(201);
    expect(body.apiKey).toMatchObject({
      name: 'billing',
      scopes: ['keys:read', 'stats:read'],
      expiresAt: null,
    });
    expect(body.previous.apiKeyId).toBe(old.apiKey.apiKeyId);
    expect(Date.parse(body.previous.expiresAt) - Date.parse(body.apiKey.createdAt)).toBe(60_000);
    expect([await statusWith(old.key), await statusWith(body.key)]).toEqual([200, 200]);

    await tenants.sql(
      'UPDATE relayops.api_keys SET expires_at = now() WHERE api_key_id = $1',
      old.apiKey.apiKeyId,
    );
    tenants.clock.ms += 2_001;
    expect([await statusWith(old.key), await statusWith(body.key)]).toEqual([401, 200]);
  });

  it('without an overlap stops the old key at once', async () => {
    const old = (await make()).body;
    expect(await statusWith(old.key)).toBe(200);
    const { body } = await rotate(old.apiKey.apiKeyId, { overlapSeconds: 0 });
    expect([await statusWith(old.key), await statusWith(body.key)]).toEqual([401, 200]);
  });

  it('takes the configured overlap when the request has no body', async () => {
    const old = (await make()).body;
    const { status, body } = await rotate(old.apiKey.apiKeyId);
    expect(status).toBe(201);
    expect(Date.parse(body.previous.expiresAt) - Date.parse(body.apiKey.createdAt)).toBe(86_400_000);
  });

  it('neither lengthens the old key nor, unasked, the new one', async () => {
    const expiresAt = inOneHour();
    const old = (await make({ expiresAt })).body;
    const { body } = await rotate(old.apiKey.apiKeyId, { overlapSeconds: 86_400 });
    expect([body.previous.expiresAt, body.apiKey.expiresAt]).toEqual([expiresAt, expiresAt]);
    const longer = await rotate(body.apiKey.apiKeyId, { expiresAt: null });
    expect(longer.body.apiKey.expiresAt).toBeNull();
  });

  it('is refused for a key that has ended', async () => {
    const revoked = (await make()).body;
    await revoke(revoked.apiKey.apiKeyId);
    const expired = (await make()).body;
    await rotate(expired.apiKey.apiKeyId, { overlapSeconds: 0 });
    for (const { apiKey } of [revoked, expired]) {
      const { status, body } = await rotate(apiKey.apiKeyId);
      expect({ status, code: body.code }).toEqual({ status: 409, code: 'API_KEY_ENDED' });
    }
  });

  it('does not hand out scopes that the caller lacks', async () => {
    const strong = await createApiKey(test.database.requests, owner.tenant.tenantId as TenantId, {
      name: 'strong',
      scopes: ['events:write'],
      actor: 'cli',
    });
    const weak = (await make({ scopes: ['keys:write'] })).body;
    expect((await rotate(strong.apiKeyId, {}, weak.key)).body.code).toBe('SCOPE_NOT_GRANTABLE');
    expect(await statusWith(strong.key)).toBe(200);
  });
});

describe('revoking a key', () => {
  it('stops it at once here, and is no error the second time', async () => {
    const { apiKey, key } = (await make()).body;
    expect(await statusWith(key)).toBe(200);
    expect([(await revoke(apiKey.apiKeyId)).status, await statusWith(key)]).toEqual([204, 401]);
    expect((await tenants.call('GET', '/v1/me', { token: key })).body['code']).toBe('CREDENTIAL_REVOKED');
    expect((await revoke(apiKey.apiKeyId)).status).toBe(204);
  });
});

describe('a key that may write keys', () => {
  it('cannot revoke, rotate or shorten one that may do more', async () => {
    const wide = (await make({ scopes: ['keys:read', 'events:write'] })).body;
    const narrow = (await make({ scopes: ['keys:read', 'keys:write'] })).body;
    const path = `/v1/api-keys/${wide.apiKey.apiKeyId}`;
    const revoked = await tenants.call('DELETE', path, { token: narrow.key });
    expect(revoked.status).toBe(403);
    expect(revoked.body).toMatchObject({ code: 'TARGET_ABOVE_CALLER', scopes: ['events:write'] });
    const shortened = await rotate(wide.apiKey.apiKeyId, { overlapSeconds: 0 }, narrow.key);
    expect(shortened.status).toBe(403);
    expect(await statusWith(wide.key)).toBe(200);
  });

  it('revokes and rotates what may do no more than itself, itself too', async () => {
    const narrow = (await make({ scopes: ['keys:read', 'keys:write'] })).body;
    const same = (await make({ scopes: ['keys:read'] })).body;
    const path = `/v1/api-keys/${same.apiKey.apiKeyId}`;
    expect((await tenants.call('DELETE', path, { token: narrow.key })).status).toBe(204);
    const both = await Promise.all([1, 2].map(() => rotate(narrow.apiKey.apiKeyId, {}, narrow.key)));
    expect(both.map(({ status }) => status)).toEqual([201, 201]);
  });
});
