import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBootstrapToken } from '../../src/tenants/index.ts';
import { Relay } from '../support/relay.ts';
import { RelayClient } from '../support/relay-client.ts';

const PASSWORD = 'correct horse battery';

interface Session {
  readonly accessToken: string;
  readonly refreshToken: string;
}

let relay: Relay;
let nobody: RelayClient;
let accounts = 0;

beforeAll(async () => {
  // The test stands for the proxy: it says who the client is.
  relay = await Relay.start({ 'http.trustedProxies': ['127.0.0.1/32'] });
  nobody = new RelayClient(relay.process.url, '');
});
afterAll(() => relay.close());

/** An owner of a tenant of its own. */
async function newOwner(): Promise<{ email: string; session: Session }> {
  const bootstrapToken = await createBootstrapToken(relay.test.database.requests, { ttlS: 60 });
  const email = `owner${accounts++}@example.com`;
  const { session } = await nobody.ok<{ session: Session }>('POST', '/v1/signup', {
    bootstrapToken,
    tenantName: 'Acme',
    email,
    password: PASSWORD,
  });
  return { email, session };
}

const logIn = (email: string, password: string, from: string, url = relay.process.url) =>
  nobody
    .at(url)
    .call<Session & { code: string }>(
      'POST',
      '/v1/auth/login',
      { email, password },
      { 'x-forwarded-for': from },
    );

describe('guessing a password', () => {
  it('from one address does not shut out the owner at another', async () => {
    const { email } = await newOwner();
    const statuses = [];
    for (let i = 0; i < 12; i++) statuses.push((await logIn(email, 'wrong', '203.0.113.1')).status);
    expect(statuses).toEqual([...Array<number>(10).fill(401), 429, 429]);
    expect((await logIn(email, PASSWORD, '198.51.100.1')).status).toBe(200);
  });

  it('from ten addresses is slowed down by the account', async () => {
    const { email } = await newOwner();
    const answers = [];
    for (let i = 0; i < 100; i++) answers.push(await logIn(email, 'wrong', `203.0.113.${10 + (i % 10)}`));
    const refused = answers.filter(({ status }) => status === 429);
    expect(refused.length).toBeGreaterThanOrEqual(60);
    for (const { headers, body } of refused) {
      expect(body.code).toBe('LOGIN_THROTTLED');
      expect(Number(headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
    }
  });

  it('under a forwarded address that the client made up counts for the real one', async () => {
    const { email } = await newOwner();
    const statuses = [];
    for (let i = 0; i < 12; i++)
      statuses.push((await logIn(email, 'wrong', `198.18.0.${i}, 203.0.113.40`)).status);
    expect(statuses.filter((status) => status === 429)).toHaveLength(2);
  });

  it('floods nobody: a client that logs in meanwhile waits for a few of the others, not for all', async () => {
    const { email } = await newOwner();
    let checked = 0;
    const flood = Array.from({ length: 120 }, async (_, i) => {
      const { status } = await logIn(`nobody${i}@example.com`, 'wrong', `203.0.113.${50 + (i % 8)}`);
      if (status === 401) checked++;
      return status;
    });
    const owner = logIn(email, PASSWORD, '198.51.100.50').then(({ status }) => ({ status, after: checked }));
    const statuses = await Promise.all(flood);
    const { status, after } = await owner;
    expect(status).toBe(200);
    expect(new Set(statuses)).toEqual(new Set([401, 503]));
    expect(checked).toBeGreaterThan(40);
    // In one line for all it would have been the last.
    expect(after).toBeLessThan(checked / 2);
  });
});

describe('a session that has ended in another process', () => {
  it('issues no credential there although it is still trusted, and ends within the trusted time', async () => {
    const other = await relay.startAnother({ role: 'api', 'auth.keyCacheMs': 10_000 });
    const { session } = await newOwner();
    const owner = new RelayClient(relay.process.url, session.accessToken);
    const admin = { email: `admin${accounts++}@example.com`, password: PASSWORD, role: 'admin' };
    const { userId } = await owner.ok<{ userId: string }>('POST', '/v1/users', admin);
    const login = await logIn(admin.email, PASSWORD, '198.51.100.60');
    const there = new RelayClient(other.url, login.body.accessToken);
    await there.ok('GET', '/v1/me');
    await owner.ok('PATCH', `/v1/users/${userId}`, { disabled: true });
    expect((await there.call('GET', '/v1/me')).status).toBe(200);
    const made = await there.call('POST', '/v1/api-keys', { name: 'kept', scopes: ['events:write'] });
    expect(made.status).toBe(401);
    expect((await there.call('GET', '/v1/me')).status).toBe(401);
  });
});
