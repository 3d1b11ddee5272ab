import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { createBootstrapToken, deleteExpiredTokens } from './index.ts';
import type { Session } from './session.schemas.ts';
import { PASSWORD, TenantsApp } from './tenants.fixture.ts';

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

let address = 0;
/** Tests do not spend each other's budgets. */
const nextAddress = (): string => `100.64.0.${Math.floor(++address / 20)}`;
const me = (token: string) => tenants.call('GET', '/v1/me', { token });
const email = (): string => `${randomUUID()}@example.com`;
const bootstrap = (ttlS = 60): Promise<string> => createBootstrapToken(test.database.requests, { ttlS });
const signUp = (body: Record<string, unknown>) =>
  tenants.call('POST', '/v1/signup', { body: { tenantName: 'T', password: PASSWORD, ...body } });
const logIn = (body: Record<string, unknown>, from = nextAddress()) =>
  tenants.call<Session & { code: string }>('POST', '/v1/auth/login', { body, from });
const refresh = (refreshToken: string) =>
  tenants.call<Session & { code: string }>('POST', '/v1/auth/refresh', { body: { refreshToken } });

describe('sign-up', () => {
  it('makes tenant, owner and session from a bootstrap token', async () => {
    const address = email();
    const answer = await signUp({ bootstrapToken: await bootstrap(), email: address.toUpperCase() });
    expect(answer.status).toBe(201);
    expect(answer.headers['cache-control']).toBe('no-store');
    expect(answer.body).toMatchObject({
      tenant: { name: 'T' },
      user: { email: address, role: 'owner', disabledAt: null },
      session: { tokenType: 'Bearer', expiresInSeconds: 900 },
    });
  });

  it('works once a token, however many try at a time', async () => {
    const bootstrapToken = await bootstrap();
    const answers = await Promise.all(
      Array.from({ length: 6 }, () => signUp({ bootstrapToken, email: email() })),
    );
    expect(answers.map((answer) => answer.status).sort()).toEqual([201, 401, 401, 401, 401, 401]);
    const [used] = await tenants.sql(
      `SELECT count(t.tenant_id)::int AS tenants FROM relayops.bootstrap_tokens b JOIN relayops.tenants t USING (tenant_id)
       WHERE token_hash = sha256($1::bytea)`,
      Buffer.from(bootstrapToken),
    );
    expect(used).toEqual({ tenants: 1 });
  });

  it('leaves nothing behind and the token open when the e-mail is taken', async () => {
    const { email: taken } = await tenants.signUp();
    const bootstrapToken = await bootstrap();
    const tenantsNow = () => tenants.sql('SELECT count(*)::int AS n FROM relayops.tenants');
    const before = await tenantsNow();
    const answer = await signUp({ bootstrapToken, email: taken.toUpperCase() });
    expect({ status: answer.status, code: answer.body['code'] }).toEqual({
      status: 409,
      code: 'EMAIL_TAKEN',
    });
    expect(await tenantsNow()).toEqual(before);
    expect((await signUp({ bootstrapToken, email: email() })).status).toBe(201);
  });

  it('refuses an expired or made-up token', async () => {
    const bootstrapToken = await bootstrap();
    await tenants.sql(
      'UPDATE relayops.bootstrap_tokens SET expires_at = now() WHERE token_hash = sha256($1::bytea)',
      Buffer.from(bootstrapToken),
    );
    for (const token of [bootstrapToken, 'rbt_made_up'])
      expect((await signUp({ bootstrapToken: token, email: email() })).body['code']).toBe(
        'BOOTSTRAP_TOKEN_INVALID',
      );
  });

  it.each([
    ['a short password', { password: 'x'.repeat(11) }],
    ['a long password', { password: 'x'.repeat(257) }],
    ['no e-mail', { email: 'nobody' }],
    ['a blank name', { tenantName: '  ' }],
    ['a name with a control character', { tenantName: 'a\u0000b' }],
    ['an unknown member', { role: 'owner' }],
  ])('refuses %s', async (_name, wrong) => {
    const answer = await signUp({ bootstrapToken: 'rbt_x', email: email(), ...wrong });
    expect({ status: answer.status, code: answer.body['code'] }).toEqual({
      status: 400,
      code: 'REQUEST_INVALID',
    });
  });
});

describe('login', () => {
  it('gives a session for e-mail and password, whatever the case of the e-mail', async () => {
    const owner = await tenants.signUp();
    const { status, body } = await logIn({ email: ` ${owner.email.toUpperCase()}`, password: PASSWORD });
    expect(status).toBe(200);
    const me = await tenants.call('GET', '/v1/me', { token: body.accessToken });
    expect(me.body).toMatchObject({
      tenantId: owner.tenant.tenantId,
      user: { userId: owner.user.userId, role: 'owner' },
    });
  });

  it('answers the same for a wrong password, an unknown e-mail and a disabled user', async () => {
    const owner = await tenants.signUp();
    const user = await tenants.addUser(owner, 'viewer');
    await tenants.sql(
      'UPDATE relayops.user_accounts SET disabled_at = now() WHERE user_id = $1',
      user.userId,
    );
    const answers = await Promise.all([
      logIn({ email: owner.email, password: 'wrong' }),
      logIn({ email: email(), password: PASSWORD }),
      logIn({ email: user.email, password: PASSWORD }),
    ]);
    for (const { status, body } of answers) {
      expect(status).toBe(401);
      expect({ ...body, requestId: '' }).toEqual({ ...answers[0].body, requestId: '' });
    }
  });

  it('is refused after ten failures from one address with the time to wait, and not from another', async () => {
    const owner = await tenants.signUp();
    const wrong = () => logIn({ email: owner.email, password: 'wrong' });
    // Some at a time: a client has a share of the queue for hashing.
    for (let i = 0; i < 5; i++) {
      const [one, two] = await Promise.all([wrong(), wrong()]);
      expect([one.status, two.status]).toEqual([401, 401]);
    }
    const right = { email: owner.email, password: PASSWORD };
    const refused = await logIn(right, '192.0.2.99');
    expect(refused.status).toBe(200);
    const here = await wrong();
    expect({ status: here.status, code: here.body.code }).toEqual({ status: 429, code: 'LOGIN_THROTTLED' });
    expect(here.headers['retry-after']).toBe('120');
  });

  it('stays open to its owner at an address that it is known at, while the account is attacked', async () => {
    const owner = await tenants.signUp();
    const right = { email: owner.email, password: PASSWORD };
    expect((await logIn(right, '198.51.100.1')).status).toBe(200);
    const statuses: number[] = [];
    for (let i = 0; i < 30; i++)
      statuses.push((await logIn({ email: owner.email, password: 'wrong' }, `203.0.113.${i}`)).status);
    expect(statuses.filter((status) => status === 429).length).toBeGreaterThanOrEqual(9);
    expect((await logIn(right, '203.0.113.200')).status).toBe(429);
    expect((await logIn(right, '198.51.100.1')).status).toBe(200);
    // A refresh makes the address known, too.
    const second = await logIn(right, '198.51.100.1');
    const body = { refreshToken: second.body.refreshToken };
    const moved = await tenants.call('POST', '/v1/auth/refresh', { body, from: '198.51.100.2' });
    expect(moved.status).toBe(200);
    expect((await logIn(right, '198.51.100.2')).status).toBe(200);
  });

  it('knows the address of an owner in a process that the owner has not used yet', async () => {
    const owner = await tenants.signUp();
    const right = { email: owner.email, password: PASSWORD };
    expect((await logIn(right, '198.51.100.9')).status).toBe(200);
    const elsewhere = await TenantsApp.start(test.database);
    const there = async (password: string, from: string) => {
      const body = { email: owner.email, password };
      return (await elsewhere.call('POST', '/v1/auth/login', { body, from })).status;
    };
    for (let i = 0; i < 25; i++) await there('wrong', `203.0.113.${i}`);
    expect(await there(PASSWORD, '203.0.113.200')).toBe(429);
    expect(await there(PASSWORD, '198.51.100.9')).toBe(200);
    await elsewhere.close();
  });

  it('treats an unknown account, and a disabled one with the right password, like a known one', async () => {
    const owner = await tenants.signUp();
    const user = await tenants.addUser(owner, 'viewer');
    await tenants.sql(
      'UPDATE relayops.user_accounts SET disabled_at = now() WHERE user_id = $1',
      user.userId,
    );
    const answersFor = async (body: Record<string, unknown>, net: string) => {
      const answers = [];
      for (let i = 0; i < 24; i++) {
        const { status, body: problem, headers } = await logIn(body, `${net}.${i}`);
        answers.push({ status, retryAfter: headers['retry-after'], ...problem, requestId: '' });
      }
      return answers;
    };
    const known = await answersFor({ email: owner.email, password: 'wrong' }, '10.1.0');
    expect(known.filter(({ status }) => status === 429).length).toBeGreaterThanOrEqual(3);
    expect(await answersFor({ email: email(), password: 'wrong' }, '10.2.0')).toEqual(known);
    expect(await answersFor({ email: user.email, password: PASSWORD }, '10.3.0')).toEqual(known);
  });

  it('stores no address of a client', async () => {
    const owner = await tenants.signUp();
    await logIn({ email: owner.email, password: PASSWORD }, '198.51.100.77');
    const rows = await tenants.sql(
      'SELECT to_jsonb(t)::text AS all FROM relayops.refresh_tokens t WHERE user_id = $1',
      owner.user.userId,
    );
    for (const row of rows) expect(row['all']).not.toContain('198.51.100');
  });

  it('refuses a NUL in the e-mail as a bad request', async () => {
    expect((await logIn({ email: 'a\u0000@b.c', password: PASSWORD })).status).toBe(400);
  });

  it('keeps passwords as Argon2id with the OWASP parameters', async () => {
    const owner = await tenants.signUp();
    const [row] = await tenants.sql(
      'SELECT password_hash AS hash FROM relayops.user_accounts WHERE user_id = $1',
      owner.user.userId,
    );
    expect(row!['hash']).toMatch(/^\$argon2id\$v=19\$m=19456,t=2,p=1\$/);
  });
});

describe('refresh', () => {
  it('gives new tokens that work', async () => {
    const owner = await tenants.signUp();
    const { status, body } = await refresh(owner.session.refreshToken);
    expect(status).toBe(200);
    expect(body.refreshToken).not.toBe(owner.session.refreshToken);
    expect((await tenants.call('GET', '/v1/me', { token: body.accessToken })).status).toBe(200);
    expect((await refresh(body.refreshToken)).status).toBe(200);
  });

  it('ends all sessions of the user when a used token comes again, access tokens too', async () => {
    const owner = await tenants.signUp();
    const bystander = await tenants.addUser(owner, 'viewer');
    const other = await logIn({ email: owner.email, password: PASSWORD });
    const second = await refresh(owner.session.refreshToken);
    const third = await refresh(second.body.refreshToken);
    expect((await me(third.body.accessToken)).status).toBe(200);
    const reuse = await refresh(owner.session.refreshToken);
    expect({ status: reuse.status, code: reuse.body.code }).toEqual({
      status: 401,
      code: 'REFRESH_TOKEN_INVALID',
    });
    for (const { refreshToken } of [third.body, other.body])
      expect((await refresh(refreshToken)).status).toBe(401);
    for (const token of [owner.token, third.body.accessToken, other.body.accessToken])
      expect((await me(token)).body['code']).toBe('CREDENTIAL_REVOKED');
    expect((await me(bystander.token)).status).toBe(200);
  });

  it('ends nothing when a token comes again whose sessions have ended already', async () => {
    const owner = await tenants.signUp();
    const second = await refresh(owner.session.refreshToken);
    expect((await refresh(owner.session.refreshToken)).status).toBe(401);
    const fresh = await logIn({ email: owner.email, password: PASSWORD });
    for (const token of [owner.session.refreshToken, second.body.refreshToken]) {
      expect((await refresh(token)).status).toBe(401);
      const body = { refreshToken: token };
      expect((await tenants.call('POST', '/v1/auth/logout', { body })).status).toBe(204);
    }
    expect((await me(fresh.body.accessToken)).status).toBe(200);
    expect((await refresh(fresh.body.refreshToken)).status).toBe(200);
  });

  it('works for one of many at a time, and their family has then ended', async () => {
    const owner = await tenants.signUp();
    const answers = await Promise.all(Array.from({ length: 5 }, () => refresh(owner.session.refreshToken)));
    const winners = answers.filter((answer) => answer.status === 200);
    expect(winners).toHaveLength(1);
    expect((await refresh(winners[0]!.body.refreshToken)).status).toBe(401);
  });

  it('refuses an expired token, an unknown one, and that of a disabled user', async () => {
    const expired = await tenants.signUp();
    await tenants.sql(
      'UPDATE relayops.refresh_tokens SET expires_at = now() WHERE user_id = $1',
      expired.user.userId,
    );
    const disabled = await tenants.signUp();
    await tenants.sql(
      'UPDATE relayops.user_accounts SET disabled_at = now() WHERE user_id = $1',
      disabled.user.userId,
    );
    for (const token of [expired.session.refreshToken, disabled.session.refreshToken, 'rrt_unknown'])
      expect((await refresh(token)).body.code).toBe('REFRESH_TOKEN_INVALID');
  });

  it('stores no token', async () => {
    const owner = await tenants.signUp();
    const rows = await tenants.sql(
      'SELECT to_jsonb(t)::text AS all FROM relayops.refresh_tokens t WHERE user_id = $1',
      owner.user.userId,
    );
    expect(rows).toHaveLength(1);
    expect(rows[0]!['all']).not.toContain(owner.session.refreshToken.slice(4));
  });
});

describe('logout', () => {
  it('ends all sessions of the user at once, access tokens too, and is no error the second time', async () => {
    const owner = await tenants.signUp();
    const other = await logIn({ email: owner.email, password: PASSWORD });
    expect((await me(owner.token)).status).toBe(200);
    const body = { refreshToken: owner.session.refreshToken };
    for (const _ of ['once', 'twice'])
      expect((await tenants.call('POST', '/v1/auth/logout', { body })).status).toBe(204);
    for (const token of [owner.token, other.body.accessToken])
      expect((await me(token)).body['code']).toBe('CREDENTIAL_REVOKED');
    for (const token of [owner.session.refreshToken, other.body.refreshToken])
      expect((await refresh(token)).status).toBe(401);
    const again = await logIn({ email: owner.email, password: PASSWORD });
    expect((await me(again.body.accessToken)).status).toBe(200);
  });

  it('ends access tokens in another process within the trusted time', async () => {
    const elsewhere = await TenantsApp.start(test.database);
    const owner = await tenants.signUp();
    const there = () => elsewhere.call('GET', '/v1/me', { token: owner.token });
    expect((await there()).status).toBe(200);
    const body = { refreshToken: owner.session.refreshToken };
    await tenants.call('POST', '/v1/auth/logout', { body });
    elsewhere.clock.ms += 2_001;
    expect((await there()).body['code']).toBe('CREDENTIAL_REVOKED');
    await elsewhere.close();
  });

  it('does not keep a new session out of a process that trusts the old one', async () => {
    const elsewhere = await TenantsApp.start(test.database);
    const owner = await tenants.signUp();
    expect((await elsewhere.call('GET', '/v1/me', { token: owner.token })).status).toBe(200);
    const body = { refreshToken: owner.session.refreshToken };
    await tenants.call('POST', '/v1/auth/logout', { body });
    const again = await logIn({ email: owner.email, password: PASSWORD });
    const there = (token: string) => elsewhere.call('GET', '/v1/me', { token });
    expect((await there(again.body.accessToken)).status).toBe(200);
    expect((await there(owner.token)).status).toBe(401);
    await elsewhere.close();
  });
});

describe('tokens that are not valid', () => {
  it('are limited by address, on every public route that takes one', async () => {
    const from = '192.0.2.55';
    const bad = { refreshToken: 'rrt_unknown' };
    const routes = [
      ['/v1/auth/refresh', bad],
      ['/v1/auth/logout', bad],
      ['/v1/auth/password-reset', { resetToken: 'rpt_unknown', newPassword: PASSWORD }],
      ['/v1/signup', { bootstrapToken: 'rbt_unknown', tenantName: 'T', email: email(), password: PASSWORD }],
    ] as const;
    for (let i = 0; i < 32; i++) {
      const [url, body] = routes[i % routes.length]!;
      const { status } = await tenants.call('POST', url, { body, from });
      expect(status).not.toBe(i < 30 ? 429 : 401);
    }
    for (const [url, body] of routes) {
      const answer = await tenants.call('POST', url, { body, from });
      expect([url, answer.status, answer.body['code']]).toEqual([url, 429, 'TOKEN_THROTTLED']);
      expect(answer.headers['retry-after']).toBe('10');
    }
    const owner = await tenants.signUp();
    expect((await refresh(owner.session.refreshToken)).status).toBe(200);
  });
});

describe('the janitor', () => {
  it('removes expired tokens in bounded steps, and only those', async () => {
    const owner = await tenants.signUp();
    const kept = await tenants.signUp();
    await logIn({ email: owner.email, password: PASSWORD });
    await tenants.sql(`UPDATE relayops.refresh_tokens SET expires_at = now() + interval '1 day'`);
    await tenants.sql(`UPDATE relayops.bootstrap_tokens SET expires_at = now() + interval '1 day'`);
    await tenants.sql(
      `UPDATE relayops.refresh_tokens SET expires_at = now() - interval '1 s' WHERE user_id = $1`,
      owner.user.userId,
    );
    expect(await deleteExpiredTokens(test.database.requests, 1)).toBe(1);
    expect(await deleteExpiredTokens(test.database.requests, 10)).toBe(1);
    expect(await deleteExpiredTokens(test.database.requests, 10)).toBe(0);
    expect((await refresh(kept.session.refreshToken)).status).toBe(200);
  });
});
