import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createApi } from '../../src/app/api.ts';
import { createBootstrapToken, SCOPES } from '../../src/tenants/index.ts';
import { Relay } from '../support/relay.ts';
import { type Problem, RelayClient } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

interface Route {
  readonly method: string;
  /** With `{name}` for each parameter. */
  readonly path: string;
  readonly isPublic: boolean;
}

interface OpenApi {
  readonly paths: Readonly<
    Record<string, Readonly<Record<string, { readonly security?: readonly unknown[] }>>>
  >;
}

/** Routes outside the description of the API: documentation, probes, metrics. Nothing in them is a tenant's. */
const UNDESCRIBED = /^(\/openapi\.json|\/docs(\/.*)?)$/;
const UNKNOWN_ID = '01900000-0000-7000-8000-000000000000';

/** What a route needs in its body before it looks for the ID. */
const BODIES: Readonly<Record<string, unknown>> = {
  'PATCH /v1/endpoints/{endpointId}': { name: 'taken' },
  'POST /v1/endpoints/{endpointId}/replay': { since: '2026-01-01T00:00:00Z' },
  'POST /v1/endpoints/{endpointId}/subscriptions': { pattern: 'taken.*' },
  'PATCH /v1/endpoints/{endpointId}/subscriptions/{subscriptionId}': { pattern: 'taken.*' },
  'PATCH /v1/users/{userId}': { disabled: true },
};

let relay: Relay;
let routes: readonly Route[];
/** Real IDs of the tenant that is not asking, by the name of the parameter. */
let ids: Readonly<Record<string, string>>;
let stranger: RelayClient;

beforeAll(async () => {
  relay = await Relay.start({ 'auth.keyCacheMs': 200 });
  const { paths } = await relay.api.ok<OpenApi>('GET', '/openapi.json');
  routes = Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, { security }]) => ({
      method: method.toUpperCase(),
      path,
      isPublic: security?.length === 0,
    })),
  );
  ids = await makeOneOfEach(relay);
  stranger = (await relay.newTenant()).api;
});
afterAll(() => relay.close());

async function makeOneOfEach({ api, simulator }: Relay): Promise<Record<string, string>> {
  const broken = simulator.receiver('broken');
  broken.configure({ behaviour: { status: 500 } });
  const { endpointId } = await api.endpoint(broken.url, 'tenancy.*', { retry: { maxAttempts: 1 } });
  const { eventId } = await api.send('tenancy.one', { secret: true });
  const { deliveryId } = await api.untilEnded(eventId);
  const subscriptions = await api.ok<{ data: { subscriptionId: string }[] }>(
    'GET',
    `/v1/endpoints/${endpointId}/subscriptions`,
  );
  const { jobId } = await api.ok<{ jobId: string }>('POST', '/v1/replays', { eventType: 'tenancy.none' });
  const keys = await api.ok<{ data: { apiKeyId: string }[] }>('GET', '/v1/api-keys');
  const { userId } = await api.ok<{ userId: string }>('POST', '/v1/users', {
    email: 'tenancy@example.com',
    password: 'correct horse battery',
    role: 'viewer',
  });
  return {
    endpointId,
    eventId,
    deliveryId,
    jobId,
    userId,
    subscriptionId: subscriptions.data[0]!.subscriptionId,
    apiKeyId: keys.data[0]!.apiKeyId,
  };
}

/** The path with IDs. @throws Error for a parameter that no ID is known of: add one to `makeOneOfEach` */
function filled(path: string, known: Readonly<Record<string, string>>): string {
  return path.replace(/\{(\w+)\}/g, (_, name: string) => {
    const id = known[name];
    if (id === undefined) throw new Error(`${path}: make one and name its ID "${name}" in this test`);
    return id;
  });
}

const call = (client: RelayClient, { method, path }: Route, known: Readonly<Record<string, string>>) => {
  const body = BODIES[`${method} ${path}`];
  return client.call<Problem & { scope?: string }>(method, filled(path, known), body);
};

/** Everything of the tenant that a call could change. */
const everything = async (): Promise<string> => {
  const tables = [
    'events',
    'deliveries',
    'delivery_work',
    'delivery_replays',
    'webhook_endpoints',
    'endpoint_secrets',
  ];
  tables.push(
    'endpoint_subscriptions',
    'api_keys',
    'user_accounts',
    'password_resets',
    'replay_jobs',
    'routing_versions',
    'tenants',
  );
  const rows = await Promise.all(
    tables.map((table) =>
      relay.sql(
        `SELECT coalesce(json_agg(to_jsonb(t) - 'last_used_at' ORDER BY t::text), '[]') AS all FROM relayops.${table} t`,
      ),
    ),
  );
  return JSON.stringify(rows);
};

it('the description of the API has every route of the server', async () => {
  const api = await createApi(relay.process.runtime);
  const served = new Set<string>();
  // One line a path: `/v1/events/:eventId (GET, HEAD)`, drawn as a tree.
  const stack: string[] = [];
  for (const line of api.server.printRoutes({ commonPrefix: false }).split('\n')) {
    const match = /^([│├└─\s]*)(\S+) \(([A-Z, ]+)\)/.exec(line) ?? /^([│├└─\s]*)(\S+)$/.exec(line);
    if (!match) continue;
    const depth = Math.floor(match[1]!.length / 4);
    stack[depth - 1] = match[2]!;
    stack.length = depth;
    if (match[3] === undefined) continue;
    const path = stack.join('').replace(/:(\w+)/g, '{$1}');
    for (const method of match[3].split(', '))
      if (!['HEAD', 'OPTIONS'].includes(method)) served.add(`${method} ${path}`);
  }
  await api.server.close();
  expect(served.size).toBeGreaterThan(30);
  const described = new Set(routes.map(({ method, path }) => `${method} ${path}`));
  const missing = [...served].filter(
    (route) => !described.has(route) && !UNDESCRIBED.test(route.split(' ')[1]!),
  );
  expect(missing).toEqual([]);
  expect([...described].filter((route) => !served.has(route))).toEqual([]);
});

describe('every route (SPEC B2)', () => {
  it('with an ID answers another tenant 404, as for an ID that does not exist, and changes nothing', async () => {
    const before = await everything();
    const withIds = routes.filter(({ path }) => path.includes('{'));
    expect(withIds.length).toBeGreaterThan(15);
    for (const route of withIds) {
      const what = `${route.method} ${route.path}`;
      const theirs = await call(stranger, route, ids);
      expect([what, theirs.status, theirs.body.code]).toEqual([what, 404, 'NOT_FOUND']);
      const none = await call(
        stranger,
        route,
        Object.fromEntries(Object.keys(ids).map((name) => [name, UNKNOWN_ID])),
      );
      expect({ ...theirs.body, requestId: '' }).toEqual({ ...none.body, requestId: '' });
      const malformed = await call(
        stranger,
        route,
        Object.fromEntries(Object.keys(ids).map((name) => [name, "x'--"])),
      );
      expect([what, malformed.status]).toEqual([what, 404]);
    }
    expect(await everything()).toBe(before);
  });

  it('that lists shows another tenant nothing', async () => {
    const lists = routes.filter(({ method, path }) => method === 'GET' && !path.includes('{'));
    const mine = Object.values(ids);
    for (const { path } of lists) {
      const { text, status } = await stranger.call('GET', path);
      expect([path, status]).toEqual([path, 200]);
      expect([path, mine.filter((id) => text.includes(id))]).toEqual([path, []]);
    }
    for (const name of ['endpointId', 'eventId'] as const)
      expect((await stranger.deliveries({ [name]: ids[name]! })).length).toBe(0);
    expect(await stranger.ok('GET', `/v1/stats?endpointId=${ids['endpointId']}`)).toMatchObject({
      events: { count: 0 },
      deliveries: {},
      open: { count: 0 },
    });
  });

  it('that is not public answers 401 without a credential, and with one that is none', async () => {
    const guarded = routes.filter(({ isPublic }) => !isPublic);
    expect(guarded.length).toBeGreaterThan(25);
    for (const route of guarded) {
      for (const [key, code] of [
        ['', 'CREDENTIAL_MISSING'],
        ['rok_wrong', 'CREDENTIAL_INVALID'],
        ['no.token.this', 'CREDENTIAL_INVALID'],
      ] as const) {
        const answer = await call(new RelayClient(relay.api.url, key), route, ids);
        expect([route.path, answer.status, answer.body.code]).toEqual([route.path, 401, code]);
        expect(answer.headers.get('www-authenticate')).toBe('Bearer');
      }
    }
    const open = routes.filter(({ isPublic }) => isPublic).map(({ path }) => path);
    expect(open.sort()).toEqual([
      '/v1/auth/login',
      '/v1/auth/logout',
      '/v1/auth/password-reset',
      '/v1/auth/refresh',
      '/v1/signup',
    ]);
  });

  it('wants its scope, which no others make up for', async () => {
    const without = await relay.newKey([]);
    const unknownIds = Object.fromEntries(Object.keys(ids).map((name) => [name, UNKNOWN_ID]));
    const free: string[] = [];
    for (const route of routes.filter(({ isPublic }) => !isPublic)) {
      const what = `${route.method} ${route.path}`;
      const refused = await call(without, route, unknownIds);
      if (refused.status !== 403) {
        free.push(what);
        continue;
      }
      const { scope } = refused.body;
      expect([what, refused.body.code]).toEqual([what, 'SCOPE_MISSING']);
      const others = await relay.newKey(SCOPES.filter((candidate) => candidate !== scope));
      expect([what, (await call(others, route, unknownIds)).status]).toEqual([what, 403]);
      const only = await relay.newKey(SCOPES.filter((candidate) => candidate === scope));
      expect([401, 403]).not.toContain((await call(only, route, unknownIds)).status);
    }
    // Any credential may know what it is itself; a password is that of its user.
    expect(free.sort()).toEqual(['GET /v1/me', 'GET /v1/tenant', 'POST /v1/me/password']);
  });
});

describe('a credential that has ended (SPEC B3)', () => {
  const event = { type: 'key.one', payload: 1 };
  const newKey = (client: RelayClient) =>
    client.ok<{ apiKey: { apiKeyId: string }; key: string }>('POST', '/v1/api-keys', {
      name: 'short',
      scopes: ['events:write'],
    });

  it('stops at once where it was revoked, and within its cache time elsewhere', async () => {
    const other = (await relay.startAnother({ role: 'api' })).url;
    const { apiKey, key } = await newKey(relay.api);
    const here = new RelayClient(relay.api.url, key);
    expect((await here.call('POST', '/v1/events', event)).status).toBe(202);
    expect((await here.at(other).call('POST', '/v1/events', event)).status).toBe(202);
    await relay.api.ok('DELETE', `/v1/api-keys/${apiKey.apiKeyId}`);
    expect(await here.call('POST', '/v1/events', event)).toMatchObject({
      status: 401,
      body: { code: 'CREDENTIAL_REVOKED' },
    });
    await until(
      'revoked elsewhere',
      () => here.at(other).call('POST', '/v1/events', event),
      ({ status }) => status === 401,
      2_000,
    );
  });

  it('is refused once it has expired', async () => {
    const { apiKey, key } = await newKey(relay.api);
    const client = new RelayClient(relay.api.url, key);
    expect((await client.call('POST', '/v1/events', event)).status).toBe(202);
    await relay.sql(
      `UPDATE relayops.api_keys SET expires_at = now() - interval '1 s' WHERE api_key_id = $1`,
      apiKey.apiKeyId,
    );
    const refused = await until(
      'expired',
      () => client.call('POST', '/v1/events', event),
      ({ status }) => status === 401,
      2_000,
    );
    expect(refused.body.code).toBe('CREDENTIAL_EXPIRED');
  });

  it('that was rotated goes on for the overlap, beside its successor', async () => {
    const { apiKey, key } = await newKey(relay.api);
    const rotated = await relay.api.ok<{ key: string }>('POST', `/v1/api-keys/${apiKey.apiKeyId}/rotate`, {
      overlapSeconds: 60,
    });
    for (const each of [key, rotated.key])
      expect((await new RelayClient(relay.api.url, each).call('POST', '/v1/events', event)).status).toBe(202);
  });
});

it('a signed-up owner can do all that a first day needs, by an access token', async () => {
  const bootstrapToken = await createBootstrapToken(relay.test.database.requests, { ttlS: 60 });
  const signUp = {
    bootstrapToken,
    tenantName: 'Acme',
    email: 'o@example.com',
    password: 'correct horse battery',
  };
  const nobody = new RelayClient(relay.api.url, '');
  const { session } = await nobody.ok<{ session: { accessToken: string } }>('POST', '/v1/signup', signUp);
  expect((await nobody.call('POST', '/v1/signup', signUp)).status).toBe(401);
  const owner = new RelayClient(relay.api.url, session.accessToken);
  const receiver = relay.receiver('first-day');
  await owner.endpoint(receiver.url, 'order.*');
  const { eventId } = await owner.send('order.paid', { order: 1 });
  expect((await owner.untilEnded(eventId)).state).toBe('succeeded');
});
