import { SignJWT } from 'jose';
import { afterAll, afterEach, beforeAll, describe, expect, it, vi } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { Database } from '../platform/db/database.ts';
import type { HttpServer } from '../platform/http/server.ts';
import type { TenantId } from '../shared/ids.ts';
import { type Scope, createApiKey, principalOf } from './index.ts';
import { type Member, TenantsApp } from './tenants.fixture.ts';

let test: TestDatabase;
let tenants: TenantsApp;
let owner: Member;

function probes(app: HttpServer): void {
  app.get('/probe/events', { config: { auth: 'events:write' } }, async (request) => {
    const { tenantId, actor, scopes } = principalOf(request);
    return { tenantId, actor, scopes: [...scopes] };
  });
  app.get('/probe/public', { config: { auth: 'public' } }, async () => ({ ok: true }));
  app.get('/probe/careless', { config: { auth: 'public' } }, async (request) => principalOf(request));
}

beforeAll(async () => {
  test = await testDatabase();
  tenants = await TenantsApp.start(test.database, { addRoutes: probes });
  owner = await tenants.signUp();
});
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  await tenants.close();
  await test.close();
});

async function newKey(scopes: Scope[] = ['events:write']): Promise<{ apiKeyId: string; key: string }> {
  const tenantId = owner.tenant.tenantId as TenantId;
  return createApiKey(test.database.requests, tenantId, { name: 'k', scopes, actor: 'cli' });
}

const probe = (token?: string) => tenants.call('GET', '/probe/events', { token });
const passTrustedTime = (): void => void (tenants.clock.ms += 2_001);

describe('routes', () => {
  it('cannot be added without saying who may call them', async () => {
    const open = (app: HttpServer): void => void app.get('/probe/forgotten', async () => 'open');
    await expect(TenantsApp.start(test.database, { addRoutes: open })).rejects.toThrow(
      /GET \/probe\/forgotten does not say who may call it/,
    );
  });

  it('need no credential when they are public, documentation, or do not exist', async () => {
    expect((await tenants.call('GET', '/probe/public')).status).toBe(200);
    expect((await tenants.call('GET', '/openapi.json')).status).toBe(200);
    expect((await tenants.app.inject({ url: '/docs/' })).statusCode).toBe(200);
    expect((await tenants.call('GET', '/nowhere')).status).toBe(404);
  });

  it('that are public have no principal to read', async () => {
    expect((await tenants.call('GET', '/probe/careless')).status).toBe(500);
  });

  it('that are not public are closed without a credential, HEAD too', async () => {
    const closed = [
      ['GET', '/v1/tenant'],
      ['PATCH', '/v1/tenant'],
      ['GET', '/v1/me'],
      ['HEAD', '/v1/me'],
      ['POST', '/v1/users'],
      ['GET', '/v1/users'],
      ['HEAD', '/v1/users'],
      ['GET', '/v1/users/x'],
      ['PATCH', '/v1/users/x'],
      ['DELETE', '/v1/users/x'],
      ['POST', '/v1/users/x/password-reset'],
      ['POST', '/v1/me/password'],
      ['POST', '/v1/api-keys'],
      ['GET', '/v1/api-keys'],
      ['POST', '/v1/api-keys/x/rotate'],
      ['DELETE', '/v1/api-keys/x'],
    ] as const;
    for (const [method, url] of closed)
      expect((await tenants.app.inject({ method, url })).statusCode, `${method} ${url}`).toBe(401);
  });

  it('are all in the API document', async () => {
    const { body } = await tenants.call<{ paths: Record<string, unknown> }>('GET', '/openapi.json');
    expect(Object.keys(body.paths).filter((path) => path.startsWith('/v1/'))).toEqual([
      '/v1/signup',
      '/v1/auth/login',
      '/v1/auth/refresh',
      '/v1/auth/logout',
      '/v1/tenant',
      '/v1/me',
      '/v1/users',
      '/v1/users/{userId}',
      '/v1/me/password',
      '/v1/users/{userId}/password-reset',
      '/v1/auth/password-reset',
      '/v1/api-keys',
      '/v1/api-keys/{apiKeyId}/rotate',
      '/v1/api-keys/{apiKeyId}',
    ]);
  });
});

describe('an API key', () => {
  it('gives the tenant, the actor and exactly its scopes', async () => {
    const { apiKeyId, key } = await newKey(['events:write', 'events:read']);
    const { status, body } = await probe(key);
    expect(status).toBe(200);
    expect(body).toEqual({
      tenantId: owner.tenant.tenantId,
      actor: `key:${apiKeyId}`,
      scopes: ['events:write', 'events:read'],
    });
  });

  it('is refused with 403 that names the scope it lacks', async () => {
    const { key } = await newKey(['events:read']);
    for (const _ of ['first', 'cached']) {
      const { status, body } = await probe(key);
      expect(status).toBe(403);
      expect(body).toMatchObject({ code: 'SCOPE_MISSING', scope: 'events:write' });
    }
  });

  it.each([
    [undefined, 'CREDENTIAL_MISSING'],
    ['', 'CREDENTIAL_MISSING'],
    ['rok_short', 'CREDENTIAL_INVALID'],
    [`rok_abcdefgh_${'x'.repeat(43)}`, 'CREDENTIAL_INVALID'],
    ['not.a.jwt', 'CREDENTIAL_INVALID'],
  ])('that is %j is refused with %s', async (token, code) => {
    const { status, body, headers } = await probe(token);
    expect({ status, code: body['code'] }).toEqual({ status: 401, code });
    expect(headers['www-authenticate']).toBe('Bearer');
  });

  it('is taken under any spelling of the scheme, and under no other scheme', async () => {
    const { key } = await newKey();
    const as = async (authorization: string) =>
      (await tenants.app.inject({ url: '/probe/events', headers: { authorization } })).statusCode;
    expect(await as(`bearer ${key}`)).toBe(200);
    expect(await as(`Basic ${key}`)).toBe(401);
    expect(await as(key)).toBe(401);
  });

  it('is stored as its SHA-256 only', async () => {
    const { apiKeyId, key } = await newKey();
    const [row] = await tenants.sql(
      `SELECT to_jsonb(k)::text AS all, sha256($2::bytea) = key_hash AS hashed FROM relayops.api_keys k
       WHERE api_key_id = $1`,
      apiKeyId,
      Buffer.from(key),
    );
    expect(row!['hashed']).toBe(true);
    expect(row!['all']).not.toContain(key.slice(13));
  });

  it('does no I/O while it is trusted', async () => {
    const { key } = await newKey();
    await probe(key);
    const query = vi.spyOn(test.database.requests, 'query');
    for (let i = 0; i < 5; i++) expect((await probe(key)).status).toBe(200);
    expect(query).not.toHaveBeenCalled();
  });

  it('is looked up once by many requests at a time', async () => {
    const { key } = await newKey();
    const query = vi.spyOn(test.database.requests, 'query');
    const answers = await Promise.all(Array.from({ length: 20 }, () => probe(key)));
    expect(answers.every((answer) => answer.status === 200)).toBe(true);
    expect(query).toHaveBeenCalledTimes(1);
  });

  it('that another process revoked stops when the trusted time is over', async () => {
    const { apiKeyId, key } = await newKey();
    expect((await probe(key)).status).toBe(200);
    await tenants.sql('UPDATE relayops.api_keys SET revoked_at = now() WHERE api_key_id = $1', apiKeyId);
    passTrustedTime();
    const { status, body } = await probe(key);
    expect({ status, code: body['code'] }).toEqual({ status: 401, code: 'CREDENTIAL_REVOKED' });
  });

  it('is trusted no longer when the clock of the process is set back', async () => {
    const monotonic = { ms: 0, now: () => monotonic.ms };
    const app = await TenantsApp.start(test.database, { addRoutes: probes, monotonic });
    const { apiKeyId, key } = await newKey();
    const there = async () => (await app.call('GET', '/probe/events', { token: key })).status;
    expect(await there()).toBe(200);
    await tenants.sql('UPDATE relayops.api_keys SET revoked_at = now() WHERE api_key_id = $1', apiKeyId);
    app.clock.ms -= 600_000;
    monotonic.ms += 2_001;
    expect(await there()).toBe(401);
    await app.close();
  });

  it('that has expired is refused', async () => {
    const { apiKeyId, key } = await newKey();
    await tenants.sql('UPDATE relayops.api_keys SET expires_at = now() WHERE api_key_id = $1', apiKeyId);
    const { status, body } = await probe(key);
    expect({ status, code: body['code'] }).toEqual({ status: 401, code: 'CREDENTIAL_EXPIRED' });
  });

  it('is trusted no longer than it lives', async () => {
    const { apiKeyId, key } = await newKey();
    const in500ms = `UPDATE relayops.api_keys SET expires_at = now() + interval '500 ms' WHERE api_key_id = $1`;
    await tenants.sql(in500ms, apiKeyId);
    expect((await probe(key)).status).toBe(200);
    await tenants.sql('UPDATE relayops.api_keys SET expires_at = now() WHERE api_key_id = $1', apiKeyId);
    tenants.clock.ms += 501;
    expect((await probe(key)).status).toBe(401);
  });

  it('gets its last use noted, once a minute', async () => {
    const { apiKeyId, key } = await newKey();
    const noted = async () =>
      (
        await tenants.sql('SELECT last_used_at AS at FROM relayops.api_keys WHERE api_key_id = $1', apiKeyId)
      )[0]!['at'];
    const other = await TenantsApp.start(test.database, { addRoutes: probes });
    await other.call('GET', '/probe/events', { token: key });
    expect(await noted()).toBeNull();
    await other.close();
    const first = await noted();
    expect(first).toBeInstanceOf(Date);

    const again = await TenantsApp.start(test.database, { addRoutes: probes });
    await again.call('GET', '/probe/events', { token: key });
    await again.close();
    expect(await noted()).toEqual(first);

    await tenants.sql(
      `UPDATE relayops.api_keys SET last_used_at = now() - interval '61 s' WHERE api_key_id = $1`,
      apiKeyId,
    );
    const later = await TenantsApp.start(test.database, { addRoutes: probes });
    await later.call('GET', '/probe/events', { token: key });
    await later.close();
    expect(((await noted()) as Date) >= (first as Date)).toBe(true);
  });
});

describe('an access token', () => {
  const sign = (changed: {
    secret?: string;
    typ?: string;
    issuer?: string;
    tenant?: string;
    gen?: unknown;
    user?: string;
  }) =>
    new SignJWT({
      tenant: changed.tenant ?? owner.tenant.tenantId,
      ...('gen' in changed ? { gen: changed.gen } : {}),
    })
      .setProtectedHeader({ alg: 'HS256', typ: changed.typ ?? 'at+jwt' })
      .setIssuer(changed.issuer ?? 'relayops')
      .setAudience('relayops-api')
      .setSubject(changed.user ?? owner.user.userId)
      .setExpirationTime(Math.floor(tenants.clock.ms / 1000) + 60)
      .sign(new TextEncoder().encode(changed.secret ?? 's'.repeat(32)));

  it('gives the scopes of the role', async () => {
    const { status, body } = await probe(owner.token);
    expect(status).toBe(200);
    expect(body).toMatchObject({ tenantId: owner.tenant.tenantId, actor: `user:${owner.user.userId}` });
    expect((await probe(await sign({}))).status).toBe(200);
  });

  it('is refused when somebody else signed it, or for something else', async () => {
    const header = Buffer.from('{"alg":"none","typ":"at+jwt"}').toString('base64url');
    for (const token of [
      await sign({ secret: 'x'.repeat(32) }),
      await sign({ typ: 'JWT' }),
      await sign({ issuer: 'other' }),
      await sign({ tenant: 'not-an-id' }),
      `${header}.${owner.token.split('.')[1]}.`,
    ])
      expect((await probe(token)).body['code']).toBe('CREDENTIAL_INVALID');
  });

  it('without a generation, of before the upgrade, goes on until something ends the sessions', async () => {
    const user = await tenants.addUser(owner, 'developer');
    const old = await sign({ user: user.userId });
    expect((await probe(old)).status).toBe(200);
    await tenants.call('POST', '/v1/auth/logout', { body: { refreshToken: user.refreshToken } });
    expect((await probe(old)).body['code']).toBe('CREDENTIAL_REVOKED');
  });

  it.each([-1, 1, 1.5, '0', null, {}])('of the generation %j is refused', async (gen) => {
    expect((await probe(await sign({ gen }))).status).toBe(401);
  });

  it('is refused after its time', async () => {
    const { session } = await tenants.signUp();
    const before = tenants.clock.ms;
    tenants.clock.ms += session.expiresInSeconds * 1000 + 1000;
    expect((await probe(session.accessToken)).body['code']).toBe('CREDENTIAL_EXPIRED');
    tenants.clock.ms = before;
  });

  it('does no I/O while its user is trusted', async () => {
    await probe(owner.token);
    const query = vi.spyOn(test.database.requests, 'query');
    expect((await probe(owner.token)).status).toBe(200);
    expect(query).not.toHaveBeenCalled();
  });

  it('stops when another process disabled its user and the trusted time is over', async () => {
    const user = await tenants.addUser(owner, 'developer');
    expect((await probe(user.token)).status).toBe(200);
    await tenants.sql(
      'UPDATE relayops.user_accounts SET disabled_at = now() WHERE user_id = $1',
      user.userId,
    );
    passTrustedTime();
    expect((await probe(user.token)).body['code']).toBe('CREDENTIAL_REVOKED');
  });
});

describe('when the database is away', () => {
  it('credentials are answered with 503, not with 401', async () => {
    const database = new Database({
      url: 'postgres://nobody@127.0.0.1:1/none',
      poolSize: 1,
      acceptancePoolSize: 2,
      deliveryPoolSize: 3,
      connectTimeoutMs: 1_000,
      statementTimeoutMs: 1_000,
      applicationName: 'away',
      onIdleError: () => undefined,
    });
    const away = await TenantsApp.start(database, { addRoutes: probes });
    const { key } = await newKey();
    for (const token of [key, owner.token])
      expect((await away.call('GET', '/probe/events', { token })).status).toBe(503);
    await away.close();
    await database.close();
  });
});

it('refuses to start without a signing secret', async () => {
  await expect(TenantsApp.start(test.database, { config: { 'auth.jwtSecret': '' } })).rejects.toThrow(
    /auth\.jwtSecret/,
  );
});
