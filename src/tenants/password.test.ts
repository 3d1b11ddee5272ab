import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { TenantId } from '../shared/ids.ts';
import { createApiKey } from './index.ts';
import type { PasswordReset } from './password.schemas.ts';
import type { Session } from './session.schemas.ts';
import { type Member, PASSWORD, TenantsApp } from './tenants.fixture.ts';

const NEW_PASSWORD = 'another horse battery';

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

const me = async (token: string) => (await tenants.call('GET', '/v1/me', { token })).status;
const logIn = async (email: string, password: string) =>
  (await tenants.call('POST', '/v1/auth/login', { body: { email, password } })).status;
const refresh = async (refreshToken: string) =>
  (await tenants.call('POST', '/v1/auth/refresh', { body: { refreshToken } })).status;
const change = (token: string, body: Record<string, unknown> = {}, from?: string) =>
  tenants.call<Session & { code: string }>('POST', '/v1/me/password', {
    token,
    body: { currentPassword: PASSWORD, newPassword: NEW_PASSWORD, ...body },
    ...(from === undefined ? {} : { from }),
  });
const issue = (token: string, userId: string) =>
  tenants.call<PasswordReset & { code: string }>('POST', `/v1/users/${userId}/password-reset`, { token });
const redeem = (resetToken: string, newPassword = NEW_PASSWORD) =>
  tenants.call<{ code?: string }>('POST', '/v1/auth/password-reset', {
    body: { resetToken, newPassword },
    from: `10.9.${Math.floor(Math.random() * 250)}.1`,
  });

describe("changing one's own password", () => {
  it('ends all other sessions and answers with a new one', async () => {
    const user = await tenants.addUser(owner, 'viewer');
    const { status, body, headers } = await change(user.token);
    expect(status).toBe(200);
    expect(headers['cache-control']).toBe('no-store');
    expect([await me(user.token), await refresh(user.refreshToken)]).toEqual([401, 401]);
    expect([await me(body.accessToken), await refresh(body.refreshToken)]).toEqual([200, 200]);
    expect([await logIn(user.email, PASSWORD), await logIn(user.email, NEW_PASSWORD)]).toEqual([401, 200]);
  });

  it('needs the current one, and is slowed down like a login', async () => {
    const user = await tenants.addUser(owner, 'viewer');
    const from = '192.0.2.30';
    for (let i = 0; i < 10; i++) {
      const { status, body } = await change(user.token, { currentPassword: 'wrong' }, from);
      expect([status, body.code]).toEqual([403, 'PASSWORD_WRONG']);
    }
    const refused = await change(user.token, {}, from);
    expect([refused.status, refused.body.code]).toEqual([429, 'LOGIN_THROTTLED']);
    const login = { email: user.email, password: PASSWORD };
    expect((await tenants.call('POST', '/v1/auth/login', { body: login, from })).status).toBe(429);
    expect(await me(user.token)).toBe(200);
  });

  it('is refused for an API key, for a password that is too short, and for a session that has ended', async () => {
    const tenantId = owner.tenant.tenantId as TenantId;
    const order = { name: 'k', scopes: ['users:write' as const], actor: 'cli' };
    const { key } = await createApiKey(test.database.requests, tenantId, order);
    expect((await change(key)).body.code).toBe('USER_REQUIRED');
    const user = await tenants.addUser(owner, 'viewer');
    expect((await change(user.token, { newPassword: 'short' })).status).toBe(400);
    expect(await me(user.token)).toBe(200);
    // As in another process: this one still trusts the session.
    await tenants.sql(
      'UPDATE relayops.user_accounts SET generation = generation + 1 WHERE user_id = $1',
      user.userId,
    );
    expect(await me(user.token)).toBe(200);
    expect((await change(user.token)).body.code).toBe('CREDENTIAL_REVOKED');
  });
});

describe('resetting a password', () => {
  it('gives a token once, which sets a new password once and ends all sessions', async () => {
    const user = await tenants.addUser(owner, 'viewer');
    const { status, body, headers } = await issue(owner.token, user.userId);
    expect(status).toBe(201);
    expect(headers['cache-control']).toBe('no-store');
    expect(body.resetToken).toMatch(/^rpt_[\w-]{43}$/);
    expect(Date.parse(body.expiresAt) - Date.now()).toBeLessThanOrEqual(3_600_000);
    expect([await me(user.token), await logIn(user.email, PASSWORD)]).toEqual([200, 200]);

    expect((await redeem(body.resetToken, 'short')).status).toBe(400);
    expect((await redeem(body.resetToken)).status).toBe(204);
    expect([await me(user.token), await refresh(user.refreshToken)]).toEqual([401, 401]);
    expect([await logIn(user.email, PASSWORD), await logIn(user.email, NEW_PASSWORD)]).toEqual([401, 200]);
    expect((await redeem(body.resetToken)).body.code).toBe('PASSWORD_RESET_INVALID');
  });

  it('works once, however many try at a time', async () => {
    const user = await tenants.addUser(owner, 'viewer');
    const { resetToken } = (await issue(owner.token, user.userId)).body;
    const answers = await Promise.all(Array.from({ length: 4 }, () => redeem(resetToken)));
    expect(answers.map(({ status }) => status).sort()).toEqual([204, 401, 401, 401]);
  });

  it('stores no token', async () => {
    const user = await tenants.addUser(owner, 'viewer');
    const { resetToken } = (await issue(owner.token, user.userId)).body;
    const [row] = await tenants.sql(
      `SELECT to_jsonb(t)::text AS all, token_hash = sha256($2::bytea) AS hashed FROM relayops.password_resets t
       WHERE user_id = $1`,
      user.userId,
      Buffer.from(resetToken),
    );
    expect(row!['hashed']).toBe(true);
    expect(row!['all']).not.toContain(resetToken.slice(4));
  });

  const endings: Record<string, (user: { userId: string; token: string }) => Promise<unknown>> = {
    'has expired': ({ userId }) =>
      tenants.sql('UPDATE relayops.password_resets SET expires_at = now() WHERE user_id = $1', userId),
    'was replaced': ({ userId }) => issue(owner.token, userId),
    'is of a user who was disabled and enabled': async ({ userId }) => {
      const url = `/v1/users/${userId}`;
      await tenants.call('PATCH', url, { token: owner.token, body: { disabled: true } });
      await tenants.call('PATCH', url, { token: owner.token, body: { disabled: false } });
    },
    'is of a user who was given another role': ({ userId }) =>
      tenants.call('PATCH', `/v1/users/${userId}`, { token: owner.token, body: { role: 'developer' } }),
    'is of a user who has changed the password': ({ token }) => change(token),
    'is of a user who was deleted': ({ userId }) =>
      tenants.call('DELETE', `/v1/users/${userId}`, { token: owner.token }),
  };
  it.each(Object.keys(endings))('is refused for a token that %s', async (ending) => {
    const user = await tenants.addUser(owner, 'viewer');
    const { resetToken } = (await issue(owner.token, user.userId)).body;
    await endings[ending]!(user);
    const { status, body } = await redeem(resetToken);
    expect([status, body.code]).toEqual([401, 'PASSWORD_RESET_INVALID']);
  });

  it('is refused when who issued the token may not manage the user any more', async () => {
    const tenantId = owner.tenant.tenantId as TenantId;
    const admin = await tenants.addUser(owner, 'admin');
    const wide = await createApiKey(test.database.requests, tenantId, {
      name: 'k',
      actor: 'cli',
      scopes: ['users:write', 'events:read', 'endpoints:read', 'deliveries:read', 'users:read', 'stats:read'],
    });
    const issued = [];
    for (const token of [admin.token, wide.key]) {
      const user = await tenants.addUser(owner, 'viewer');
      issued.push((await issue(token, user.userId)).body.resetToken);
    }
    await tenants.call('PATCH', `/v1/users/${admin.userId}`, {
      token: owner.token,
      body: { disabled: true },
    });
    await tenants.call('DELETE', `/v1/api-keys/${wide.apiKeyId}`, { token: owner.token });
    for (const resetToken of issued)
      expect((await redeem(resetToken)).body.code).toBe('PASSWORD_RESET_INVALID');
  });

  it("is refused for one's own, which needs the current password", async () => {
    expect((await issue(owner.token, owner.user.userId)).body.code).toBe('OWN_PASSWORD_RESET');
  });

  it('is refused for a token that is unknown', async () => {
    expect((await redeem(`rpt_${randomUUID()}`)).body.code).toBe('PASSWORD_RESET_INVALID');
  });
});
