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

const email = (): string => `${randomUUID()}@example.com`;
const bootstrap = (ttlS = 60): Promise<string> => createBootstrapToken(test.database.requests, { ttlS });
const signUp = (body: Record<string, unknown>) =>
  tenants.call('POST', '/v1/signup', { body: { tenantName: 'T', password: PASSWORD, ...body } });
const logIn = (body: Record<string, unknown>) =>
  tenants.call<Session & { code: string }>('POST', '/v1/auth/login', { body });
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

  it('is refused after ten failures with the time to wait, for this e-mail only, and then works again', async () => {
    const owner = await tenants.signUp();
    const wrong = () => logIn({ email: owner.email, password: 'wrong' });
    const failures = await Promise.all(Array.from({ length: 11 }, wrong));
    expect(failures.filter((answer) => answer.status === 401)).toHaveLength(10);
    const refused = await logIn({ email: owner.email, password: PASSWORD });
    expect({ status: refused.status, code: refused.body.code }).toEqual({
      status: 429,
      code: 'LOGIN_THROTTLED',
    });
    expect(refused.headers['retry-after']).toBe('300');
    expect((await logIn({ email: email(), password: PASSWORD })).status).toBe(401);
    tenants.clock.ms += 300_000;
    expect((await logIn({ email: owner.email, password: PASSWORD })).status).toBe(200);
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

  it('ends the whole family, and no other, when a used token comes again', async () => {
    const owner = await tenants.signUp();
    const other = await logIn({ email: owner.email, password: PASSWORD });
    const second = await refresh(owner.session.refreshToken);
    const third = await refresh(second.body.refreshToken);
    const reuse = await refresh(owner.session.refreshToken);
    expect({ status: reuse.status, code: reuse.body.code }).toEqual({
      status: 401,
      code: 'REFRESH_TOKEN_INVALID',
    });
    expect((await refresh(third.body.refreshToken)).status).toBe(401);
    expect((await refresh(other.body.refreshToken)).status).toBe(200);
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
  it('ends the session, and is no error the second time', async () => {
    const owner = await tenants.signUp();
    const body = { refreshToken: owner.session.refreshToken };
    for (const _ of ['once', 'twice'])
      expect((await tenants.call('POST', '/v1/auth/logout', { body })).status).toBe(204);
    expect((await refresh(owner.session.refreshToken)).status).toBe(401);
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
