import { once } from 'node:events';
import { createServer, type IncomingHttpHeaders, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { createRelayOpsClient, type RelayOpsClient, RelayOpsError } from './client.ts';

interface Seen {
  readonly method: string | undefined;
  readonly url: string | undefined;
  readonly headers: IncomingHttpHeaders;
  readonly body: string;
}

interface Reply {
  readonly status: number;
  readonly headers?: Record<string, string>;
  readonly body?: string;
}

const JSON_TYPE = { 'content-type': 'application/json' };
const PROBLEM_TYPE = { 'content-type': 'application/problem+json' };

describe('the client', () => {
  let server: Server;
  let relay: RelayOpsClient;
  let reply: Reply;
  let seen: Seen[];

  beforeEach(async () => {
    seen = [];
    server = createServer((request, response) => {
      void text(request).then((body) => {
        seen.push({ method: request.method, url: request.url, headers: request.headers, body });
        response.writeHead(reply.status, reply.headers).end(reply.body);
      });
    }).listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    relay = createRelayOpsClient({ baseUrl: `http://127.0.0.1:${port}`, apiKey: 'rok_test' });
  });
  afterEach(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });

  const failure = async (call: Promise<unknown>): Promise<RelayOpsError> => {
    const error: unknown = await call.then(
      () => undefined,
      (reason: unknown) => reason,
    );
    expect(error).toBeInstanceOf(RelayOpsError);
    return error as RelayOpsError;
  };

  it('sends an event as JSON with its key, and returns the answer', async () => {
    const accepted = { eventId: 'e-1', acceptedAt: '2026-01-01T00:00:00.000Z', deliveries: 2 };
    reply = { status: 202, headers: JSON_TYPE, body: JSON.stringify(accepted) };
    const { data, response } = await relay.POST('/v1/events', {
      body: { type: 'order.paid', payload: { order: 1 }, idempotencyKey: 'order-1' },
    });
    expect(data.eventId).toBe('e-1');
    expect(data).toEqual(accepted);
    expect(response.status).toBe(202);
    expect(seen).toHaveLength(1);
    expect(seen[0]).toMatchObject({ method: 'POST', url: '/v1/events' });
    expect(seen[0]?.headers['authorization']).toBe('Bearer rok_test');
    expect(seen[0]?.headers['content-type']).toBe('application/json');
    expect(JSON.parse(seen[0]!.body)).toEqual({
      type: 'order.paid',
      payload: { order: 1 },
      idempotencyKey: 'order-1',
    });
  });

  it('puts parameters into the path and the query, and needs none that has a default', async () => {
    reply = { status: 200, headers: JSON_TYPE, body: '{"data":[],"nextCursor":null}' };
    const { data } = await relay.GET('/v1/deliveries', { params: { query: { state: 'dead', limit: 10 } } });
    await relay.GET('/v1/events');
    await relay.GET('/v1/endpoints/{endpointId}/subscriptions', { params: { path: { endpointId: 'a/b' } } });
    expect(data.nextCursor).toBeNull();
    expect(seen.map(({ url }) => url)).toEqual([
      '/v1/deliveries?state=dead&limit=10',
      '/v1/events',
      '/v1/endpoints/a%2Fb/subscriptions',
    ]);
  });

  it('answers a call without a body with undefined data', async () => {
    reply = { status: 204 };
    const { data } = await relay.DELETE('/v1/api-keys/{apiKeyId}', { params: { path: { apiKeyId: 'k' } } });
    expect(data).toBeUndefined();
  });

  it('reads a payload as the bytes that it is', async () => {
    reply = { status: 200, headers: JSON_TYPE, body: '{"n":12345678901234567890}' };
    const { data } = await relay.GET('/v1/events/{eventId}/payload', {
      params: { path: { eventId: 'e' } },
      parseAs: 'arrayBuffer',
    });
    expect(Buffer.from(data).toString()).toBe('{"n":12345678901234567890}');
  });

  it('throws a problem as a typed error', async () => {
    const problem = {
      code: 'IDEMPOTENCY_CONFLICT',
      status: 409,
      detail: 'The key "k" belongs to event e-1.',
      fix: 'Use a new key.',
      requestId: 'req-1',
      originalEventId: 'e-1',
      errors: [{ field: 'body/idempotencyKey', reason: 'is taken' }],
    };
    reply = {
      status: 409,
      headers: { ...PROBLEM_TYPE, 'retry-after': '7' },
      body: JSON.stringify(problem),
    };
    const error = await failure(relay.POST('/v1/events', { body: { type: 'a', payload: null } }));
    expect(error).toMatchObject({
      name: 'RelayOpsError',
      message: 'The key "k" belongs to event e-1.',
      code: 'IDEMPOTENCY_CONFLICT',
      status: 409,
      fix: 'Use a new key.',
      requestId: 'req-1',
      retryAfterSeconds: 7,
      fields: [{ field: 'body/idempotencyKey', reason: 'is taken' }],
    });
    expect(error.problem['originalEventId']).toBe('e-1');
  });

  it('throws what is no problem document by its status', async () => {
    reply = {
      status: 502,
      headers: { 'content-type': 'text/html', 'x-request-id': 'req-2' },
      body: '<h1>Bad gateway</h1>',
    };
    expect(await failure(relay.GET('/v1/me'))).toMatchObject({
      code: 'HTTP_502',
      status: 502,
      fields: [],
      requestId: 'req-2',
      retryAfterSeconds: undefined,
    });
  });

  it('uses the fetch that it is given', async () => {
    const requests: string[] = [];
    const own = createRelayOpsClient({
      baseUrl: 'https://relay.example',
      apiKey: 'rok_test',
      fetch: async (request) => {
        requests.push(request.url);
        return Response.json({ actor: 'key:1', tenantId: 't', scopes: [], user: null });
      },
    });
    expect((await own.GET('/v1/me')).data.user).toBeNull();
    expect(requests).toEqual(['https://relay.example/v1/me']);
  });

  it('does not compile calls that the API does not have', () => {
    // @ts-expect-error -- no such path
    const wrongPath = () => relay.GET('/v1/nothing');
    // @ts-expect-error -- the body is missing
    const noBody = () => relay.POST('/v1/events');
    // @ts-expect-error -- a type is text
    const wrongBody = () => relay.POST('/v1/events', { body: { type: 1, payload: null } });
    // @ts-expect-error -- the parameter of the path is missing
    const noParameter = () => relay.GET('/v1/events/{eventId}');
    expect([wrongPath, noBody, wrongBody, noParameter]).toHaveLength(4);
  });
});
