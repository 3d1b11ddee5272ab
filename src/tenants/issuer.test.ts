import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { until } from '../../test/support/until.ts';
import type { TenantId } from '../shared/ids.ts';
import { insertApiKey } from './api-key.sql.ts';
import { createApiKey } from './index.ts';
import { type Member, PASSWORD, TenantsApp } from './tenants.fixture.ts';
import { insertPasswordReset, insertRefreshToken } from './token.sql.ts';
import { insertUser, setPasswordHash, updateUser } from './user.sql.ts';

let test: TestDatabase;
/** Two processes on one database: what happens in the first, the second does not hear of. */
let first: TenantsApp;
let second: TenantsApp;
let owner: Member;

beforeAll(async () => {
  test = await testDatabase();
  // A route that writes something lasting without an Issuer, as other features have them.
  const addRoutes = (app: TenantsApp['app']): void =>
    void app.post('/probe/lasting', { config: { auth: 'endpoints:write' } }, async () => ({ ok: true }));
  first = await TenantsApp.start(test.database);
  second = await TenantsApp.start(test.database, { addRoutes });
  owner = await first.signUp();
});
afterAll(async () => {
  await first.close();
  await second.close();
  await test.close();
});

const newKey = { name: 'k', scopes: ['keys:read'] };
const newUser = () => ({ email: `${randomUUID()}@example.com`, password: PASSWORD, role: 'viewer' });

/** Everything that issues a credential to, or by means of, a caller. */
const issuing: Record<string, (token: string) => Promise<{ status: number }>> = {
  'makes an API key': (token) => second.call('POST', '/v1/api-keys', { token, body: newKey }),
  'rotates an API key': async (token) => {
    const tenantId = owner.tenant.tenantId as TenantId;
    const order = { name: 'k', scopes: ['keys:read' as const], actor: 'cli' };
    const { apiKeyId } = await createApiKey(test.database.requests, tenantId, order);
    return second.call('POST', `/v1/api-keys/${apiKeyId}/rotate`, { token });
  },
  'makes a user': (token) => second.call('POST', '/v1/users', { token, body: newUser() }),
  'grants a role': async (token) => {
    const { userId } = await first.addUser(owner, 'viewer');
    return second.call('PATCH', `/v1/users/${userId}`, { token, body: { role: 'developer' } });
  },
  'makes a password reset': async (token) => {
    const { userId } = await first.addUser(owner, 'viewer');
    return second.call('POST', `/v1/users/${userId}/password-reset`, { token });
  },
  'changes its password': (token) =>
    second.call('POST', '/v1/me/password', {
      token,
      body: { currentPassword: PASSWORD, newPassword: 'another horse battery' },
    }),
  'writes something that lasts': (token) => second.call('POST', '/probe/lasting', { token }),
};

const endings: Record<string, (userId: string, refreshToken: string) => Promise<{ status: number }>> = {
  'was disabled': (userId) =>
    first.call('PATCH', `/v1/users/${userId}`, { token: owner.token, body: { disabled: true } }),
  'was demoted': (userId) =>
    first.call('PATCH', `/v1/users/${userId}`, { token: owner.token, body: { role: 'viewer' } }),
  'was deleted': (userId) => first.call('DELETE', `/v1/users/${userId}`, { token: owner.token }),
  'has logged out': (_userId, refreshToken) =>
    first.call('POST', '/v1/auth/logout', { body: { refreshToken } }),
};

describe.each(Object.keys(issuing))('a caller that %s', (what) => {
  it.each(Object.keys(endings))(
    'is refused by a process that still trusts it, when it %s in another one',
    async (ending) => {
      const admin = await first.addUser(owner, 'admin');
      const me = () => second.call('GET', '/v1/me', { token: admin.token });
      expect((await me()).status).toBe(200);
      expect((await endings[ending]!(admin.userId, admin.refreshToken)).status).toBeLessThan(300);
      expect((await me()).status).toBe(200);
      expect([401, 403]).toContain((await issuing[what]!(admin.token)).status);
    },
  );

  it('is let through when nothing has happened to it', async () => {
    const admin = await first.addUser(owner, 'admin');
    expect((await issuing[what]!(admin.token)).status).toBeLessThan(300);
  });
});

describe('an API key', () => {
  it.each(['revoked', 'expired', 'limited to less'])(
    'that was %s in another process issues nothing, although it is still trusted',
    async (how) => {
      const tenantId = owner.tenant.tenantId as TenantId;
      const { apiKeyId, key } = await createApiKey(test.database.requests, tenantId, {
        name: 'k',
        scopes: ['keys:read', 'keys:write', 'events:read'],
        actor: 'cli',
      });
      const me = () => second.call('GET', '/v1/me', { token: key });
      expect((await me()).status).toBe(200);
      const change = {
        revoked: 'revoked_at = now()',
        expired: 'expires_at = now()',
        'limited to less': `scopes = '{keys:write}'`,
      }[how]!;
      await first.sql(`UPDATE relayops.api_keys SET ${change} WHERE api_key_id = $1`, apiKeyId);
      expect((await me()).status).toBe(200);
      const made = await second.call('POST', '/v1/api-keys', { token: key, body: newKey });
      expect([401, 403]).toContain(made.status);
    },
  );
});

/** How many connections to this database wait for a lock. */
async function waiting(): Promise<unknown> {
  const [row] = await first.sql(
    `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  );
  return row!['n'];
}

describe('issuing', () => {
  it('waits for a change of the caller that is not committed yet, and then sees it', async () => {
    const admin = await first.addUser(owner, 'admin');
    const made = await test.database.transaction(async (tx) => {
      const text = 'UPDATE relayops.user_accounts SET disabled_at = now() WHERE user_id = $1';
      await tx.query({ text, values: [admin.userId] });
      const started = second.call('POST', '/v1/api-keys', { token: admin.token, body: newKey });
      await until('issuing waits', waiting, (connections) => connections === 1);
      return { answer: started };
    });
    expect((await made.answer).status).toBe(401);
  });

  it('does not compile without an Issuer or a SessionHolder', () => {
    const db = test.database.requests;
    const principal = {
      db,
      tenantId: owner.tenant.tenantId as TenantId,
      actor: 'user:x',
      role: 'owner' as const,
    };
    const scopes = new Set(['users:write' as const]);
    const statements = [
      // @ts-expect-error what only looks like an Issuer is none
      () => insertApiKey({ ...principal, scopes }, {} as never),
      // @ts-expect-error what only looks like an Issuer is none
      () => insertUser({ ...principal, scopes }, {} as never),
      // @ts-expect-error what only looks like an Issuer is none
      () => updateUser({ ...principal, scopes }, {} as never, 'owner', false),
      // @ts-expect-error what only looks like an Issuer is none
      () => setPasswordHash({ ...principal, scopes }, {} as never, ''),
      // @ts-expect-error what only looks like an Issuer is none
      () => insertPasswordReset({ ...principal, scopes }, {} as never),
      // @ts-expect-error what only looks like a SessionHolder is none
      () => insertRefreshToken({ tx: {} as never, user: {} as never }, {} as never),
    ];
    expect(statements).toHaveLength(6);
  });
});

it('a change that no route made raises the generation as well', async () => {
  const user = await first.addUser(owner, 'viewer');
  const generation = async () =>
    (await first.sql('SELECT generation FROM relayops.user_accounts WHERE user_id = $1', user.userId))[0]![
      'generation'
    ] as number;
  for (const change of [
    `role = 'developer'`,
    'disabled_at = now()',
    'disabled_at = NULL',
    `password_hash = 'x'`,
  ]) {
    const before = await generation();
    await first.sql(`UPDATE relayops.user_accounts SET ${change} WHERE user_id = $1`, user.userId);
    expect([change, await generation()]).toEqual([change, before + 1]);
  }
});
