import { once } from 'node:events';
import { type AddressInfo, connect, type Socket } from 'node:net';
import { pino } from 'pino';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { testDatabase } from '../../../test/support/database.ts';
import { testHttpLimits } from '../../../test/support/http-limits.ts';
import { closeHttpServer, createHttpServer, type HttpServer } from './server.ts';

/** Long after any test here has ended. */
const NO_DEADLINE = new AbortController().signal;

let app: HttpServer;

beforeEach(async () => {
  app = await createHttpServer({
    logger: pino({ level: 'silent' }),
    maxBodyBytes: 1024,
    limits: testHttpLimits,
  });
});
afterEach(() => app.close());

async function open(send = ''): Promise<Socket> {
  const connected = once(app.server, 'connection');
  const socket = connect((app.server.address() as AddressInfo).port, '127.0.0.1');
  socket.on('error', () => undefined).write(send);
  await connected;
  return socket;
}

const textOf = async (socket: Socket): Promise<string> => {
  let text = '';
  for await (const chunk of socket) text += String(chunk);
  return text;
};

describe('closing', () => {
  it('does not wait for connections that say nothing, or never finish saying it', async () => {
    await app.listen({ port: 0, host: '127.0.0.1' });
    const sockets = [await open(), await open('GET / HTT'), await open('GET / HTTP/1.1\r\nhost: a\r\n')];
    // Not by `once`, which rejects when the cut shows as a reset first.
    const gone = sockets.map((socket) => new Promise((resolve) => socket.resume().once('close', resolve)));
    await closeHttpServer(app, NO_DEADLINE, 10);
    await Promise.all(gone);
  });

  it('waits for a request in flight, also past that time, and answers it', async () => {
    const [asked, answered] = [Promise.withResolvers<void>(), Promise.withResolvers<string>()];
    app.get('/slow', async () => {
      asked.resolve();
      return answered.promise;
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    const slow = textOf(await open('GET /slow HTTP/1.1\r\nhost: a\r\n\r\n'));
    await asked.promise;
    const silent = once((await open()).resume(), 'close');
    const closed = closeHttpServer(app, NO_DEADLINE, 10);
    await silent;
    answered.resolve('late');
    expect(await slow).toMatch(/^HTTP\/1.1 200 .*late$/s);
    await closed;
  });

  it('cuts what is left at the deadline', async () => {
    const asked = Promise.withResolvers<void>();
    app.get('/never', async () => {
      asked.resolve();
      return new Promise<never>(() => undefined);
    });
    await app.listen({ port: 0, host: '127.0.0.1' });
    const never = textOf(await open('GET /never HTTP/1.1\r\nhost: a\r\n\r\n'));
    await asked.promise;
    const deadline = new AbortController();
    const closed = closeHttpServer(app, deadline.signal);
    deadline.abort();
    await closed;
    expect(await never).toBe('');
  });
});

describe('an error of the database', () => {
  it.each([
    ['a character that it cannot keep', `SELECT convert_from('\\x00', 'UTF8')`, 400, 'REQUEST_INVALID'],
    ['no UUID', `SELECT 'x'::uuid`, 400, 'REQUEST_INVALID'],
    ['no time', `SELECT 'x'::timestamptz`, 400, 'REQUEST_INVALID'],
    ['30 February', `SELECT '2026-02-30'::date`, 400, 'REQUEST_INVALID'],
    ['an offset of 99 hours', `SELECT '2026-01-01 00:00+99'::timestamptz`, 400, 'REQUEST_INVALID'],
    ['too slow', 'SELECT pg_sleep(60)', 503, 'QUERY_TIMEOUT'],
    ['a fault of ours', 'SELECT 1 / 0', 500, 'INTERNAL'],
  ])('%s', async (_what, statement, status, code) => {
    const test = await testDatabase();
    try {
      app.get('/query', async () =>
        test.database.transaction(async (tx) => {
          await tx.query({ text: 'SET LOCAL statement_timeout = 50' });
          await tx.query({ text: statement });
        }),
      );
      const answer = await app.inject('/query');
      expect(answer.statusCode).toBe(status);
      expect(answer.json()).toMatchObject({ code });
      expect(answer.headers['retry-after']).toBe(status === 503 ? '5' : undefined);
      expect(answer.body).not.toMatch(/syntax|encoding|statement|uuid/);
    } finally {
      await test.close();
    }
  });
});

describe('the address of a client', () => {
  it('comes from a trusted proxy; an ignored header is said once', async () => {
    const log: string[] = [];
    const behind = await createHttpServer({
      logger: pino({ level: 'warn' }, { write: (line: string) => void log.push(line) }),
      maxBodyBytes: 1024,
      limits: testHttpLimits,
      trustedProxies: ['10.0.0.0/8'],
    });
    behind.get('/address', async ({ clientAddress }) => clientAddress);
    const ask = async (remoteAddress: string, forwarded?: string) => {
      const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded };
      return (await behind.inject({ url: '/address', remoteAddress, headers })).body;
    };
    expect(await ask('10.0.0.1', '203.0.113.5')).toBe('203.0.113.5');
    expect(await ask('10.0.0.1')).toBe('10.0.0.1');
    expect(log).toEqual([]);
    for (const _ of ['once', 'twice']) expect(await ask('192.0.2.1', '203.0.113.5')).toBe('192.0.2.1');
    expect(log).toHaveLength(1);
    expect(JSON.parse(log[0]!)).toMatchObject({ peer: '192.0.2.1' });
    await behind.close();
  });
});
