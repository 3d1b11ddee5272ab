import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { testHttpLimits } from '../../../test/support/http-limits.ts';
import { until } from '../../../test/support/until.ts';
import type { CutReason } from './connections.ts';
import type { Problem } from './problem.ts';
import { createHttpServer, type HttpLimits, type HttpServer } from './server.ts';

let app: HttpServer;
let cut: CutReason[];
const sockets: Socket[] = [];

async function serve(limits: Partial<HttpLimits> = {}): Promise<void> {
  await app?.close();
  cut = [];
  app = await createHttpServer({
    logger: pino({ level: 'silent' }),
    maxBodyBytes: 1024,
    limits: { ...testHttpLimits, ...limits },
    documentation: { version: 'test' },
    onCut: (reason) => cut.push(reason),
  });
  app.get('/things/:id', async () => ({ ok: true }));
  app.post('/things', async (request) => ({ got: request.body }));
  app.get('/large', async (_request, reply) => reply.send(Buffer.alloc(4_000_000)));
  await app.listen({ port: 0, host: '127.0.0.1' });
}
beforeEach(() => serve());
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await app.close();
});

function open(): Socket {
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  sockets.push(socket);
  return socket.on('error', () => undefined);
}

/** Sends bytes as they are, and reads until the server ends the connection. */
async function raw(text: string): Promise<{ status: number; head: string; problem: Problem }> {
  const socket = open();
  socket.write(text);
  let answer = '';
  for await (const chunk of socket) answer += String(chunk);
  const [head, body] = answer.split('\r\n\r\n') as [string, string];
  return { status: Number(head.split(' ')[1]), head, problem: JSON.parse(body) as Problem };
}

const CLOSE = 'connection: close\r\n\r\n';

describe('what is refused before a route is found', () => {
  it.each([
    ['no request line', 'hello\r\n\r\n', 400, 'REQUEST_MALFORMED'],
    ['an unknown method', `FOO / HTTP/1.1\r\nhost: a\r\n${CLOSE}`, 400, 'REQUEST_MALFORMED'],
    ['no Host', `GET /things/1 HTTP/1.1\r\n${CLOSE}`, 400, 'REQUEST_MALFORMED'],
    ['a header without a name', 'GET / HTTP/1.1\r\nhost: a\r\n: x\r\n\r\n', 400, 'REQUEST_MALFORMED'],
    [
      'two lengths',
      'POST /things HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\ncontent-length: 2\r\n\r\n',
      400,
      'REQUEST_MALFORMED',
    ],
    [
      'too many headers',
      `GET / HTTP/1.1\r\nhost: a\r\nx: ${'y'.repeat(20_000)}\r\n\r\n`,
      431,
      'HEADERS_TOO_LARGE',
    ],
    [
      'a path that cannot be decoded',
      `GET /things/%zz HTTP/1.1\r\nhost: a\r\n${CLOSE}`,
      400,
      'REQUEST_INVALID',
    ],
    [
      'an unknown expectation',
      'POST /things HTTP/1.1\r\nhost: a\r\nexpect: tea\r\ncontent-length: 1\r\n\r\n',
      417,
      'EXPECTATION_FAILED',
    ],
    ['another method', `DELETE /things HTTP/1.1\r\nhost: a\r\n${CLOSE}`, 405, 'METHOD_NOT_ALLOWED'],
    [
      'another method of a path with an ID',
      `POST /things/1?a=b HTTP/1.1\r\nhost: a\r\n${CLOSE}`,
      405,
      'METHOD_NOT_ALLOWED',
    ],
    ['no such path', `GET /nothing HTTP/1.1\r\nhost: a\r\n${CLOSE}`, 404, 'NOT_FOUND'],
    [
      'a file outside of the documentation',
      `GET /docs/static/..%2f..%2fpackage.json HTTP/1.1\r\nhost: a\r\n${CLOSE}`,
      404,
      'NOT_FOUND',
    ],
    ['a file with a NUL', `GET /docs/static/%00 HTTP/1.1\r\nhost: a\r\n${CLOSE}`, 404, 'NOT_FOUND'],
  ])('%s is answered with a problem document', async (_what, text, status, code) => {
    const answer = await raw(text);
    expect(answer.problem).toMatchObject({ status, code });
    expect(answer.status).toBe(status);
    expect(answer.head).toMatch(/content-type: application\/problem\+json/i);
    expect(answer.problem.fix).not.toBe('');
  });

  it('names the methods that the path takes', async () => {
    expect((await app.inject({ method: 'PUT', url: '/things' })).headers['allow']).toBe('POST');
    expect((await app.inject({ method: 'PUT', url: '/things/7' })).headers['allow']).toBe('GET, HEAD');
  });

  it.each([
    [
      'a body over the limit',
      'application/json',
      undefined,
      `"${'x'.repeat(2_000)}"`,
      413,
      'BODY_TOO_LARGE',
      /1024 bytes/,
    ],
    ['a deep body', 'application/json', undefined, '['.repeat(1_000), 413, 'BODY_TOO_DEEP', /128 levels/],
    ['no JSON', 'application/json', undefined, '{"a":', 400, 'BODY_MALFORMED', /byte 5/],
    ['another type', 'text/x-tea', undefined, 'tea', 415, 'MEDIA_TYPE_UNSUPPORTED', /came as text\/x-tea/],
    [
      'a compressed body',
      'application/json',
      'br',
      '{}',
      415,
      'CONTENT_CODING_UNSUPPORTED',
      /Content-Encoding: br/,
    ],
  ])('%s says what came', async (_what, type, coding, body, status, code, detail) => {
    const headers = { 'content-type': type, ...(coding === undefined ? {} : { 'content-encoding': coding }) };
    const answer = await app.inject({ method: 'POST', url: '/things', headers, payload: body });
    expect(answer.json()).toMatchObject({ status, code, detail: expect.stringMatching(detail) as unknown });
  });
});

describe('a time-out', () => {
  it('of the headers, of a silent connection and of the body means what it says', async () => {
    await serve({ headersTimeoutMs: 300, requestTimeoutMs: 900 });
    const started = performance.now();
    const [silent, headers] = await Promise.all([raw(''), raw('GET / HTTP/1.1\r\nhost: a\r\nx: ')]);
    // Checked twice a second.
    expect(performance.now() - started).toBeLessThan(300 + 1_500);
    expect([silent.status, headers.status]).toEqual([408, 408]);
    expect(headers.problem.code).toBe('REQUEST_TIMEOUT');
    const body = await raw(
      'POST /things HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: 9\r\n\r\n{',
    );
    expect(body.status).toBe(408);
  });

  it('ends a connection whose client does not read its answers, and spares one that reads slowly', async () => {
    await serve({ writeTimeoutMs: 1_000 });
    const idle = open().pause();
    const slow = open().pause();
    for (const socket of [idle, slow]) socket.write('GET /large HTTP/1.1\r\nhost: a\r\n\r\n'.repeat(20));
    const reading = setInterval(() => void slow.read(), 100);
    try {
      await until(
        'cut',
        () => cut,
        (reasons) => reasons.length > 0,
      );
      const left = await new Promise<number>((resolve) =>
        app.server.getConnections((_error, count) => resolve(count)),
      );
      expect({ cut, left }).toEqual({ cut: ['answer_not_read'], left: 1 });
    } finally {
      clearInterval(reading);
    }
  });
});

it('an address that has its share of the connections gets no more until one ends', async () => {
  await serve({ maxConnectionsPerAddress: 2 });
  const first = open();
  open();
  await once(open().resume(), 'close');
  expect(cut).toEqual(['too_many_of_address']);
  first.destroy();
  const ask = () => raw(`GET /nothing HTTP/1.1\r\nhost: a\r\n${CLOSE}`).catch(() => ({ status: 0 }));
  await until('room again', ask, ({ status }) => status === 404);
});

it('documentation may load from here alone, and nothing may be framed or guessed', async () => {
  const page = await app.inject('/docs');
  expect(page.statusCode).toBe(200);
  expect(page.headers['content-security-policy']).toMatch(
    /default-src 'none'; script-src 'self'; style-src 'self';/,
  );
  expect(page.headers['content-security-policy']).not.toContain('unsafe');
  for (const url of ['/docs', '/docs/static/swagger-ui.css', '/openapi.json', '/things/1', '/nothing'])
    expect((await app.inject(url)).headers, url).toMatchObject({
      'x-content-type-options': 'nosniff',
      'x-frame-options': 'DENY',
    });
});
