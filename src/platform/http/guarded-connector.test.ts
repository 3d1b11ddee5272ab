import { once } from 'node:events';
import { type Server, createServer } from 'node:http';
import { type AddressInfo, type Socket, createServer as createTcpServer } from 'node:net';
import { Agent, type Dispatcher } from 'undici';
import { afterEach, describe, expect, it } from 'vitest';
import { parseAllowList } from './address-guard.ts';
import { DnsServer } from '../dns/dns-server.fixture.ts';
import { NameResolver, type ResolveName } from '../dns/resolver.ts';
import { AddressRefusedError, type Dialler, guardedConnector, refusePeer } from './guarded-connector.ts';

const cleanUp: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  for (const close of cleanUp.splice(0).reverse()) await close();
});

/** A receiver on every loopback address, which counts connections. */
async function receiver(
  host = '0.0.0.0',
): Promise<{ server: Server; port: number; connections: () => number }> {
  let connections = 0;
  const server = createServer((_request, response) => response.end('ok'));
  server.on('connection', () => void (connections += 1));
  server.listen(0, host);
  await once(server, 'listening');
  cleanUp.push(async () => {
    server.closeAllConnections();
    server.close();
    await once(server, 'close');
  });
  return { server, port: (server.address() as AddressInfo).port, connections: () => connections };
}

function agent(allow: readonly string[], resolve: ResolveName, connectTimeoutMs = 5_000): Agent {
  const connect = guardedConnector({
    allow: parseAllowList(allow),
    connectTimeoutMs,
    allowH2: true,
    resolve,
  });
  const made = new Agent({
    connections: 1,
    connect: (target, callback) => connect(target, callback, dialler()),
  });
  cleanUp.push(() => made.destroy());
  return made;
}

const dialler = (): Dialler => ({ share: 'tenant', pendingName: undefined, hasQueued: false });

/** A resolver that gives its answers one after the other, and the last one from then on. */
function resolver(...answers: readonly (readonly string[])[]): ResolveName & { calls: string[] } {
  const calls: string[] = [];
  const resolve: ResolveName = (hostname, _share, done) => {
    const answer = answers[Math.min(calls.length, answers.length - 1)] ?? [];
    calls.push(hostname);
    const addresses = answer.map((address) => ({ address, family: address.includes(':') ? 6 : 4 }));
    setImmediate(() => done({ kind: 'addresses', addresses }));
    return { isQueued: false, leave: () => undefined };
  };
  return Object.assign(resolve, { calls });
}

/** The resolver that deliveries use, with the system's hosts file. */
function realResolver(servers: readonly string[] = []): NameResolver {
  const made = new NameResolver({ servers, timeoutMs: 2_000, maxLookups: 8, maxCachedNames: 8 });
  cleanUp.push(async () => made.close());
  return made;
}

async function dnsServer(): Promise<DnsServer> {
  const server = await DnsServer.start();
  cleanUp.push(() => server.close());
  return server;
}

const get = (dispatcher: Dispatcher, origin: string): Promise<string> =>
  dispatcher.request({ origin, path: '/', method: 'GET' }).then((response) => response.body.text());

/** As above, on a connection of its own. */
const getOnce = (dispatcher: Dispatcher, origin: string): Promise<string> =>
  dispatcher
    .request({ origin, path: '/', method: 'GET', headers: { connection: 'close' } })
    .then((response) => response.body.text());

describe('guardedConnector', () => {
  it('refuses a name that resolves to loopback, and dials nothing', async () => {
    const { port, connections } = await receiver();
    const failure = get(agent([], resolver(['127.0.0.1'])), `http://receiver.test:${port}`);
    await expect(failure).rejects.toBeInstanceOf(AddressRefusedError);
    await expect(failure).rejects.toMatchObject({
      code: 'ADDRESS_REFUSED',
      host: 'receiver.test',
      reasons: ['127.0.0.1 is a loopback address'],
    });
    expect(connections()).toBe(0);
  });

  it('finds names of the system', async () => {
    const { port } = await receiver();
    const { resolve } = realResolver();
    await expect(get(agent([], resolve), `http://localhost:${port}`)).rejects.toMatchObject({
      code: 'ADDRESS_REFUSED',
    });
    const allowed = agent(['127.0.0.1/32', '::1/128'], resolve);
    await expect(get(allowed, `http://localhost:${port}`)).resolves.toBe('ok');
  });

  it.each(['127.0.0.1', '[::1]', '[::ffff:127.0.0.1]', '169.254.169.254', '[fe80::1]'])(
    'refuses the literal host %s, for which no look-up is made',
    async (host) => {
      const { port, connections } = await receiver();
      const lookup = resolver(['1.1.1.1']);
      await expect(get(agent([], lookup), `http://${host}:${port}`)).rejects.toMatchObject({
        code: 'ADDRESS_REFUSED',
      });
      expect(lookup.calls).toEqual([]);
      expect(connections()).toBe(0);
    },
  );

  it('passes an allowed literal host and an allowed name, on the allowed port only', async () => {
    const { port } = await receiver();
    const other = await receiver();
    const dispatcher = agent([`127.0.0.1/32:${port}`], resolver(['127.0.0.1']));
    await expect(get(dispatcher, `http://127.0.0.1:${port}`)).resolves.toBe('ok');
    await expect(get(dispatcher, `http://receiver.test:${port}`)).resolves.toBe('ok');
    await expect(get(dispatcher, `http://127.0.0.1:${other.port}`)).rejects.toMatchObject({
      code: 'ADDRESS_REFUSED',
    });
    await expect(get(dispatcher, `http://receiver.test:${other.port}`)).rejects.toMatchObject({
      code: 'ADDRESS_REFUSED',
    });
    expect(other.connections()).toBe(0);
  });

  it('judges the answer of each look-up, so that a name cannot be bound anew after it was accepted', async () => {
    const { port, connections } = await receiver();
    const lookup = resolver(['127.0.0.1'], ['127.0.0.2'], ['10.0.0.1', '::1']);
    const dispatcher = agent(['127.0.0.1/32'], lookup);
    const origin = `http://rebinding.test:${port}`;
    await expect(getOnce(dispatcher, origin)).resolves.toBe('ok');
    await expect(getOnce(dispatcher, origin)).rejects.toMatchObject({ code: 'ADDRESS_REFUSED' });
    await expect(getOnce(dispatcher, origin)).rejects.toMatchObject({
      reasons: ['10.0.0.1 is a private address', '::1 is a loopback address'],
    });
    expect(connections()).toBe(1);
  });

  it('dials only the vetted ones among several addresses', async () => {
    const { port } = await receiver('127.0.0.1');
    const trap = createTcpServer();
    trap.listen(port, '127.0.0.2');
    await once(trap, 'listening');
    cleanUp.push(async () => void trap.close());
    let trapped = 0;
    trap.on('connection', () => void (trapped += 1));
    const dispatcher = agent(['127.0.0.1/32'], resolver(['127.0.0.2', '::1', '127.0.0.1']));
    await expect(get(dispatcher, `http://mixed.test:${port}`)).resolves.toBe('ok');
    expect(trapped).toBe(0);
  });

  it('goes on to the next address when one does not answer', async () => {
    const { port } = await receiver('127.0.0.1');
    const dispatcher = agent(['127.0.0.0/8', '::1/128'], resolver(['::1', '127.0.0.3', '127.0.0.1']));
    await expect(get(dispatcher, `http://several.test:${port}`)).resolves.toBe('ok');
  });

  it('looks nothing up for a connection that is reused', async () => {
    const { port, connections } = await receiver();
    const lookup = resolver(['127.0.0.1']);
    const dispatcher = agent(['127.0.0.1/32'], lookup);
    for (let i = 0; i < 20; i += 1) await get(dispatcher, `http://receiver.test:${port}`);
    expect(lookup.calls).toEqual(['receiver.test']);
    expect(connections()).toBe(1);
  });

  it('judges cached answers as well, and answers that changed', async () => {
    const { port, connections } = await receiver();
    const server = await dnsServer();
    server.set('rebinding.test', { a: ['127.0.0.1'], ttlS: 60 });
    const { resolve } = realResolver([server.address]);
    const origin = `http://rebinding.test:${port}`;
    await expect(get(agent(['127.0.0.1/32'], resolve), origin)).resolves.toBe('ok');
    await expect(get(agent([], resolve), origin)).rejects.toMatchObject({ code: 'ADDRESS_REFUSED' });
    server.set('changed.test', { a: ['10.0.0.1'], ttlS: 60 });
    await expect(get(agent([], resolve), `http://changed.test:${port}`)).rejects.toMatchObject({
      reasons: ['10.0.0.1 is a private address'],
    });
    expect(server.asked()).toEqual(['rebinding.test', 'changed.test']);
    expect(connections()).toBe(1);
  });

  it.each([
    ['not_found', 'ENOTFOUND'],
    ['server_failure', 'ESERVFAIL'],
    ['timeout', 'ETIMEOUT'],
  ] as const)('tells a look-up that failed with %s from one that we refused', async (reason, code) => {
    const failed: ResolveName = (_name, _share, done) => void done({ kind: 'failed', reason });
    await expect(get(agent([], failed), 'http://missing.test')).rejects.toMatchObject({ code });
    const refused: ResolveName = (_name, _share, done) => void done({ kind: 'refused', why: 'waited' });
    await expect(get(agent([], refused), 'http://missing.test')).rejects.toMatchObject({
      code: 'LOOKUP_REFUSED',
    });
  });

  it('refuses a name without addresses', async () => {
    await expect(get(agent([], resolver([])), 'http://empty.test')).rejects.toMatchObject({
      code: 'ADDRESS_REFUSED',
    });
  });

  it('gives a connection its time from the end of the look-up on', async () => {
    const { port } = await receiver();
    const late: ResolveName = (_name, _share, done) => {
      const addresses = [{ address: '127.0.0.1', family: 4 }];
      const timer = setTimeout(() => done({ kind: 'addresses', addresses }), 300);
      return { isQueued: true, leave: () => clearTimeout(timer) };
    };
    await expect(get(agent(['127.0.0.1/32'], late, 200), `http://late.test:${port}`)).resolves.toBe('ok');
  });

  it.each(['127.0.0.1', 'silent.test'])('bounds a TLS handshake with %s that does not end', async (host) => {
    const server = createTcpServer((socket) => socket.on('error', () => undefined));
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    cleanUp.push(async () => void server.close());
    const { port } = server.address() as AddressInfo;
    const dispatcher = agent(['127.0.0.1/32'], resolver(['127.0.0.1']), 100);
    await expect(get(dispatcher, `https://${host}:${port}`)).rejects.toMatchObject({
      code: 'UND_ERR_CONNECT_TIMEOUT',
    });
  });

  it('offers the name, not the address, as TLS server name, and HTTP/2 beside HTTP/1.1', async () => {
    const server = createTcpServer();
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    cleanUp.push(async () => void server.close());
    const { port } = server.address() as AddressInfo;
    const dispatcher = agent(['127.0.0.1/32'], resolver(['127.0.0.1']));
    const answer = get(dispatcher, `https://receiver.test:${port}`).catch((error: unknown) => error);
    const [socket] = (await once(server, 'connection')) as [Socket];
    const [hello] = (await once(socket, 'data')) as [Buffer];
    socket.destroy();
    expect(hello.includes('receiver.test')).toBe(true);
    expect(hello.includes('\u0002h2')).toBe(true);
    expect(hello.includes('\u0008http/1.1')).toBe(true);
    await expect(answer).resolves.toBeInstanceOf(Error);
  });

  it('leaves the look-up of a connection that nobody waits for any more', async () => {
    const left = Promise.withResolvers<void>();
    const connect = guardedConnector({
      allow: [],
      connectTimeoutMs: 1_000,
      allowH2: false,
      resolve: () => ({ isQueued: false, leave: left.resolve }),
    });
    const target = { hostname: 'a.test', host: 'a.test', protocol: 'http:', port: '' };
    const waiting = dialler();
    const socket = connect(target, () => undefined, waiting)!;
    expect(waiting.pendingName).toBeDefined();
    socket.destroy();
    await left.promise;
    expect(waiting.pendingName).toBeUndefined();
  });
});

describe('refusePeer', () => {
  it('refuses the peer of an open socket that should not have been reached', () => {
    expect(refusePeer('a.test', '127.0.0.1', 80, [])).toBeInstanceOf(AddressRefusedError);
    expect(refusePeer('a.test', '::ffff:10.0.0.1', 80, [])).toMatchObject({ code: 'ADDRESS_REFUSED' });
    expect(refusePeer('a.test', '::ffff:1.1.1.1', 80, [])).toBeUndefined();
    expect(refusePeer('a.test', '127.0.0.1', 80, parseAllowList(['127.0.0.1/32:80']))).toBeUndefined();
  });

  it('takes a socket without a peer for a reset, which may be tried again', () => {
    expect(refusePeer('a.test', undefined, 80, [])).toMatchObject({ code: 'ECONNRESET' });
  });
});
