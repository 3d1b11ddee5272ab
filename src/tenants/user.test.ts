import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import type { TenantId } from '../shared/ids.ts';
import type { User } from './account.schemas.ts';
import type { Session } from './session.schemas.ts';
import {
  createApiKey,
  createBootstrapToken,
  createTenant,
  loadTenantLimits,
  SCOPES,
  type Scope,
} from './index.ts';
import { scopesOfRole } from './scopes.ts';
import type { Page } from '../platform/http/page.ts';
import { type Member, PASSWORD, TenantsApp } from './tenants.fixture.ts';

let test: TestDatabase;
let tenants: TenantsApp;

beforeAll(async () => {
  test = await testDatabase();
  tenants = await TenantsApp.start(test.database);
});
afterAll(async () => {
  await tenants.close();
  await test.close();
});

const change = (token: string, userId: string, body: Record<string, unknown>) =>
  tenants.call<User & { code: string; scopes: string[] }>('PATCH', `/v1/users/${userId}`, { token, body });
const logIn = async (email: string, password = PASSWORD): Promise<string> => {
  const body = { email, password };
  return (await tenants.call<Session>('POST', '/v1/auth/login', { body })).body.accessToken;
};
const newUser = (role: string) => ({ email: `${randomUUID()}@example.com`, password: PASSWORD, role });

/** How many connections to this database wait for a lock. */
async function waiting(): Promise<unknown> {
  const [row] = await tenants.sql(
    `SELECT count(*)::int AS n FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'`,
  );
  return row!['n'];
}

describe('the tenant', () => {
  it('is shown to every member and renamed by those who manage users', async () => {
    const owner = await tenants.signUp('Before');
    const viewer = await tenants.addUser(owner, 'viewer');
    const body = { name: 'After' };
    expect((await tenants.call('PATCH', '/v1/tenant', { token: viewer.token, body })).status).toBe(403);
    expect((await tenants.call('PATCH', '/v1/tenant', { token: owner.token, body })).body['name']).toBe(
      'After',
    );
    const seen = await tenants.call('GET', '/v1/tenant', { token: viewer.token });
    expect(seen.body).toEqual({ ...owner.tenant, name: 'After' });
  });

  it('has limits of its own or none', async () => {
    const db = test.database.requests;
    const tenantId = await createTenant(db, { name: 'Limited' });
    expect(await loadTenantLimits(db, tenantId)).toEqual({ ingestRate: null, ingestBurst: null });
    await tenants.sql(
      'UPDATE relayops.tenants SET ingest_rate = 5, ingest_burst = 9 WHERE tenant_id = $1',
      tenantId,
    );
    expect(await loadTenantLimits(db, tenantId)).toEqual({ ingestRate: 5, ingestBurst: 9 });
  });
});

describe('/v1/me', () => {
  it('tells a viewer and a key what they may do', async () => {
    const owner = await tenants.signUp();
    const viewer = await tenants.addUser(owner, 'viewer');
    const { body } = await tenants.call('GET', '/v1/me', { token: viewer.token });
    expect(body).toEqual({
      actor: `user:${viewer.userId}`,
      tenantId: owner.tenant.tenantId,
      scopes: ['events:read', 'endpoints:read', 'deliveries:read', 'users:read', 'stats:read'],
      user: { userId: viewer.userId, email: viewer.email, role: 'viewer' },
    });
    const { apiKeyId, key } = await createApiKey(test.database.requests, owner.tenant.tenantId as TenantId, {
      name: 'k',
      scopes: ['stats:read'],
      actor: 'cli',
    });
    expect((await tenants.call('GET', '/v1/me', { token: key })).body).toEqual({
      actor: `key:${apiKeyId}`,
      tenantId: owner.tenant.tenantId,
      scopes: ['stats:read'],
      user: null,
    });
  });
});

describe('users', () => {
  it('are listed newest first, page by page, without passwords', async () => {
    const owner = await tenants.signUp();
    const made = [owner.user.userId];
    for (const role of ['admin', 'developer', 'viewer', 'viewer'])
      made.unshift((await tenants.addUser(owner, role)).userId);
    const seen: string[] = [];
    let cursor: string | null = '';
    while (cursor !== null) {
      const url = `/v1/users?limit=2${cursor === '' ? '' : `&cursor=${cursor}`}`;
      const page: { body: Page<User>; text: string } = await tenants.call<Page<User>>('GET', url, {
        token: owner.token,
      });
      expect(page.text).not.toMatch(/argon2|password/i);
      seen.push(...page.body.data.map((user) => user.userId));
      cursor = page.body.nextCursor;
    }
    expect([...seen].sort()).toEqual([...made].sort());
    expect(seen).toEqual([...seen].sort().reverse());
  });

  it.each(['limit=0', 'limit=201', 'limit=x', 'cursor=x', 'page=2'])('refuse the query %s', async (query) => {
    const owner = await tenants.signUp();
    expect((await tenants.call('GET', `/v1/users?${query}`, { token: owner.token })).status).toBe(400);
  });

  it('need an e-mail that nobody has, in any tenant', async () => {
    const [one, two] = [await tenants.signUp(), await tenants.signUp()];
    const body = { ...newUser('viewer'), email: one.email.toUpperCase() };
    const answer = await tenants.call('POST', '/v1/users', { token: two.token, body });
    expect({ status: answer.status, code: answer.body['code'] }).toEqual({
      status: 409,
      code: 'EMAIL_TAKEN',
    });
  });

  it('that are disabled stop at once here, and their sessions end', async () => {
    const owner = await tenants.signUp();
    const user = await tenants.addUser(owner, 'viewer');
    const login = await tenants.call<{ refreshToken: string }>('POST', '/v1/auth/login', {
      body: { email: user.email, password: PASSWORD },
    });
    expect((await tenants.call('GET', '/v1/me', { token: user.token })).status).toBe(200);
    const disabled = await change(owner.token, user.userId, { disabled: true });
    expect(disabled.body.disabledAt).not.toBeNull();
    expect((await tenants.call('GET', '/v1/me', { token: user.token })).status).toBe(401);
    await change(owner.token, user.userId, { disabled: false });
    expect((await tenants.call('GET', '/v1/me', { token: user.token })).status).toBe(401);
    const body = { refreshToken: login.body.refreshToken };
    expect((await tenants.call('POST', '/v1/auth/refresh', { body })).status).toBe(401);
  });

  it('lose their sessions with a new role, and have its scopes after the next login', async () => {
    const owner = await tenants.signUp();
    const user = await tenants.addUser(owner, 'admin');
    const list = (token: string) => tenants.call('GET', '/v1/api-keys', { token });
    expect((await list(user.token)).status).toBe(200);
    expect((await change(owner.token, user.userId, { role: 'viewer' })).body.role).toBe('viewer');
    expect((await list(user.token)).status).toBe(401);
    expect((await list(await logIn(user.email))).status).toBe(403);
  });

  it('keep their sessions when nothing changes', async () => {
    const owner = await tenants.signUp();
    const user = await tenants.addUser(owner, 'viewer');
    expect((await change(owner.token, user.userId, { role: 'viewer', disabled: false })).status).toBe(200);
    expect((await tenants.call('GET', '/v1/me', { token: user.token })).status).toBe(200);
  });

  it('change by at least one member', async () => {
    const owner = await tenants.signUp();
    expect((await change(owner.token, owner.user.userId, {})).status).toBe(400);
  });
});

describe('owners', () => {
  const promoted = async (owner: Member) => {
    const user = await tenants.addUser(owner, 'viewer');
    expect((await change(owner.token, user.userId, { role: 'owner' })).status).toBe(200);
    return { ...user, token: await logIn(user.email) };
  };

  it.each([{ disabled: true }, { role: 'admin' }])('keep the last active one against %j', async (body) => {
    const owner = await tenants.signUp();
    const disabled = await promoted(owner);
    await change(owner.token, disabled.userId, { disabled: true });
    const answer = await change(owner.token, owner.user.userId, body);
    expect({ status: answer.status, code: answer.body.code }).toEqual({ status: 409, code: 'LAST_OWNER' });
  });

  it('cannot remove each other at the same time', async () => {
    const owner = await tenants.signUp();
    const second = await promoted(owner);
    // Holding both rows until both requests wait makes the two overlap.
    const removals = await test.database.transaction(async (tx) => {
      const users = [owner.user.userId, second.userId];
      await tx.query({
        text: 'SELECT FROM relayops.user_accounts WHERE user_id = ANY($1) FOR UPDATE',
        values: [users],
      });
      const started = [
        change(owner.token, second.userId, { role: 'viewer' }),
        change(second.token, owner.user.userId, { role: 'viewer' }),
      ];
      await vi.waitUntil(async () => (await waiting()) === started.length, { interval: 1 });
      return started;
    });
    const answers = await Promise.all(removals);
    expect(answers.map((answer) => answer.status).filter((status) => status === 200)).toHaveLength(1);
    const [left] = await tenants.sql(
      `SELECT count(*)::int AS owners FROM relayops.user_accounts WHERE tenant_id = $1 AND role = 'owner'`,
      owner.tenant.tenantId,
    );
    expect(left).toEqual({ owners: 1 });
  });

  it('are made, changed and disabled by owners only', async () => {
    const owner = await tenants.signUp();
    const admin = await tenants.addUser(owner, 'admin');
    const answers = [
      await tenants.call('POST', '/v1/users', { token: admin.token, body: newUser('owner') }),
      await change(admin.token, admin.userId, { role: 'owner' }),
      await change(admin.token, owner.user.userId, { disabled: true }),
    ];
    for (const { status, body } of answers)
      expect({ status, code: body['code'] }).toEqual({ status: 403, code: 'OWNER_REQUIRED' });
  });
});

describe('a key that may write users', () => {
  it('cannot make users who may do more than itself', async () => {
    const owner = await tenants.signUp();
    const viewer = await tenants.addUser(owner, 'viewer');
    const { key } = await createApiKey(test.database.requests, owner.tenant.tenantId as TenantId, {
      name: 'k',
      scopes: ['users:write', 'users:read'],
      actor: 'cli',
    });
    const made = await tenants.call('POST', '/v1/users', { token: key, body: newUser('viewer') });
    const raised = await change(key, viewer.userId, { role: 'developer' });
    expect([made.body['code'], raised.body.code]).toEqual(['SCOPE_NOT_GRANTABLE', 'TARGET_ABOVE_CALLER']);
    expect(made.body['scopes']).toEqual(['events:read', 'endpoints:read', 'deliveries:read', 'stats:read']);
  });
});

describe('a user who may do more than the caller', () => {
  const keyOf = async (owner: Member, scopes: Scope[]): Promise<string> => {
    const tenantId = owner.tenant.tenantId as TenantId;
    const order = { name: 'k', scopes, actor: 'cli' };
    return (await createApiKey(test.database.requests, tenantId, order)).key;
  };
  const touches = [
    ['PATCH', '', { role: 'viewer' }],
    ['PATCH', '', { disabled: true }],
    ['POST', '/password-reset', undefined],
    ['DELETE', '', undefined],
  ] as const;
  const touch = (token: string, userId: string, [method, path, body]: (typeof touches)[number]) =>
    tenants.call<{ code?: string; scopes?: string[] }>(method, `/v1/users/${userId}${path}`, { token, body });

  it('is not changed, disabled, reset or deleted, and one who may do less is', async () => {
    const owner = await tenants.signUp();
    const key = await keyOf(owner, [...scopesOfRole('viewer'), 'users:write']);
    for (const one of touches) {
      const above = await tenants.addUser(owner, 'developer');
      const refused = await touch(key, above.userId, one);
      expect([one, refused.status, refused.body.code]).toEqual([one, 403, 'TARGET_ABOVE_CALLER']);
      expect(refused.body.scopes).toContain('events:write');
      expect((await tenants.call('GET', '/v1/me', { token: above.token })).status).toBe(200);
      const below = await tenants.addUser(owner, 'viewer');
      expect((await touch(key, below.userId, one)).status).toBeLessThan(300);
    }
  });

  it('is an owner for everybody but owners, whatever scopes they have', async () => {
    const owner = await tenants.signUp();
    const admin = await tenants.addUser(owner, 'admin');
    for (const caller of [admin.token, await keyOf(owner, [...SCOPES])])
      for (const one of touches) {
        const refused = await touch(caller, owner.user.userId, one);
        expect([one, refused.status, refused.body.code]).toEqual([one, 403, 'OWNER_REQUIRED']);
      }
  });
});

describe('deleting a user', () => {
  const remove = (token: string, userId: string) => tenants.call('DELETE', `/v1/users/${userId}`, { token });

  it('ends its sessions, frees its address, keeps its name and the keys that it made', async () => {
    const owner = await tenants.signUp();
    const user = await tenants.addUser(owner, 'admin');
    const made = await tenants.call<{ key: string; apiKey: { apiKeyId: string } }>('POST', '/v1/api-keys', {
      token: user.token,
      body: { name: 'made', scopes: ['keys:read'] },
    });
    expect((await remove(owner.token, user.userId)).status).toBe(204);
    expect((await tenants.call('GET', '/v1/me', { token: user.token })).status).toBe(401);
    const refreshed = { refreshToken: user.refreshToken };
    expect((await tenants.call('POST', '/v1/auth/refresh', { body: refreshed })).status).toBe(401);
    const login = { email: user.email, password: PASSWORD };
    expect((await tenants.call('POST', '/v1/auth/login', { body: login })).status).toBe(401);
    const byRow = { email: `deleted:${user.userId}`, password: PASSWORD };
    expect((await tenants.call('POST', '/v1/auth/login', { body: byRow })).status).toBe(401);

    expect((await tenants.call('GET', '/v1/me', { token: made.body.key })).status).toBe(200);
    const keys = await tenants.call<Page<{ createdBy: string }>>('GET', '/v1/api-keys', {
      token: owner.token,
    });
    expect(keys.body.data[0]!.createdBy).toBe(`user:${user.userId}`);
    const author = await tenants.call<User>('GET', `/v1/users/${user.userId}`, { token: owner.token });
    expect(author.body).toMatchObject({ email: user.email });
    expect(author.body.deletedAt).toMatch(/Z$/);
    const list = await tenants.call<Page<User>>('GET', '/v1/users', { token: owner.token });
    expect(list.body.data.map(({ userId }) => userId)).toEqual([owner.user.userId]);

    const again = { email: user.email, password: PASSWORD, role: 'viewer' };
    expect((await tenants.call('POST', '/v1/users', { token: owner.token, body: again })).status).toBe(201);
  });

  it('leaves nothing to change or to delete', async () => {
    const owner = await tenants.signUp();
    const user = await tenants.addUser(owner, 'viewer');
    await remove(owner.token, user.userId);
    expect((await remove(owner.token, user.userId)).status).toBe(404);
    expect((await change(owner.token, user.userId, { disabled: false })).status).toBe(404);
    const reset = `/v1/users/${user.userId}/password-reset`;
    expect((await tenants.call('POST', reset, { token: owner.token })).status).toBe(404);
  });

  it('keeps the last active owner', async () => {
    const owner = await tenants.signUp();
    const answer = await remove(owner.token, owner.user.userId);
    expect([answer.status, answer.body['code']]).toEqual([409, 'LAST_OWNER']);
  });
});

describe('addresses that are in use', () => {
  it('are refused the same wherever they are, some times, and logged without the address', async () => {
    const log: string[] = [];
    const watched = await TenantsApp.start(test.database, { log });
    const [mine, theirs] = [await watched.signUp(), await watched.signUp()];
    const add = (token: string, email: string) =>
      watched.call<{ code: string }>('POST', '/v1/users', {
        token,
        body: { ...newUser('viewer'), email },
      });
    const own = await add(mine.token, mine.email);
    const foreign = await add(mine.token, theirs.email);
    expect({ ...own.body, requestId: '' }).toEqual({ ...foreign.body, requestId: '' });
    expect(own.body.code).toBe('EMAIL_TAKEN');
    for (let i = 2; i < 10; i++) expect((await add(mine.token, theirs.email)).status).toBe(409);
    // Free or in use is not told any more.
    for (const email of [theirs.email, `${randomUUID()}@example.com`]) {
      const refused = await add(mine.token, email);
      expect([refused.status, refused.body.code]).toEqual([429, 'EMAIL_TRIES_THROTTLED']);
      expect(refused.headers['retry-after']).toBe('60');
    }
    expect((await add(theirs.token, `${randomUUID()}@example.com`)).status).toBe(201);

    const lines = log
      .filter((line) => line.includes('in use'))
      .map((line) => JSON.parse(line) as Record<string, unknown>);
    expect(lines).toHaveLength(10);
    expect(lines[1]).toMatchObject({
      tenant: mine.tenant.tenantId,
      caller: `user:${mine.user.userId}`,
      email_domain: 'example.com',
    });
    const fingerprints = new Set(lines.map((line) => line['email_fingerprint']));
    expect([...fingerprints]).toEqual([expect.stringMatching(/^[0-9a-f]{32}$/), expect.any(String)]);
    expect(log.join('')).not.toContain(theirs.email.split('@')[0]);
    await watched.close();
  });

  it('are limited for a tenant as a whole, and for a bootstrap token', async () => {
    const owner = await tenants.signUp();
    const body = { ...newUser('viewer'), email: owner.email };
    const statuses: number[] = [];
    for (let i = 0; i < 3; i++) {
      const { token } = await tenants.addUser(owner, 'admin');
      for (let k = 0; k < 8; k++)
        statuses.push((await tenants.call('POST', '/v1/users', { token, body })).status);
    }
    expect(statuses).toEqual([...Array<number>(20).fill(409), ...Array<number>(4).fill(429)]);

    const bootstrapToken = await createBootstrapToken(test.database.requests, { ttlS: 60 });
    const signUp = { bootstrapToken, tenantName: 'T', email: owner.email, password: PASSWORD };
    for (let i = 0; i < 21; i++) {
      const answer = await tenants.call('POST', '/v1/signup', { body: signUp, from: `192.0.2.${i}` });
      expect(answer.status).toBe(i < 20 ? 409 : 429);
    }
  });
});
