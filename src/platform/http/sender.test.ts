import { once } from 'node:events';
import { createServer } from 'node:http';
import { type AddressInfo, createServer as createTcpServer } from 'node:net';
import { setImmediate as immediate } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DnsServer } from '../dns/dns-server.fixture.ts';
import { type NameResolverOptions, NameResolver } from '../dns/resolver.ts';
import { parseAllowList } from './address-guard.ts';
import type { SendOutcome } from './send-outcome.ts';
import { HttpSender, type SenderOptions } from './sender.ts';

let dns: DnsServer;
const cleanUp: (() => unknown)[] = [];
beforeEach(async () => {
  dns = await DnsServer.start();
  cleanUp.push(() => dns.close());
});
afterEach(async () => {
  for (const close of cleanUp.splice(0).reverse()) await close();
});

function newSender(names: Partial<NameResolverOptions> = {}, options: Partial<SenderOptions> = {}) {
  const resolver = new NameResolver({
    servers: [dns.address],
    timeoutMs: 2_000,
    maxLookups: 8,
    maxCachedNames: 8,
    ...names,
  });
  const sender = new HttpSender({
    allow: parseAllowList(['127.0.0.1/32']),
    connectTimeoutMs: 2_000,
    socketsPerOrigin: 8,
    maxResponseBytes: 1_024,
    http2: false,
    resolve: resolver.resolve,
    ...options,
  });
  cleanUp.push(async () => {
    await sender.close();
    resolver.close();
  });
  const send = (url: string, timeoutMs = 5_000, share = 'a'): Promise<SendOutcome> =>
    sender.send({ url, headers: {}, body: Buffer.from('{}'), timeoutMs, share });
  return { sender, resolver, send };
}

/** @param connection what each answer says of its connection */
async function receiver(connection: 'keep-alive' | 'close' = 'close'): Promise<{ port: number }> {
  const server = createServer((_request, response) => response.writeHead(200, { connection }).end());
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  cleanUp.push(() => {
    server.closeAllConnections();
    server.close();
  });
  return { port: (server.address() as AddressInfo).port };
}

const failure = (code: string) => ({ kind: 'failure', code });

describe('a request to a name', () => {
  it('uses one look-up for many connections', async () => {
    const { port } = await receiver();
    dns.set('well.test', { a: ['127.0.0.1'], delayMs: 20 });
    const { send } = newSender();
    const sent = await Promise.all(Array.from({ length: 20 }, () => send(`http://well.test:${port}/`)));
    expect(sent).toMatchObject(sent.map(() => ({ kind: 'response', status: 200 })));
    expect(dns.asked()).toEqual(['well.test']);
  });

  it('needs no look-up while it has an open socket', async () => {
    const { port } = await receiver('keep-alive');
    let nowMs = 0;
    const { send } = newSender({ now: () => nowMs });
    dns.set('well.test', { a: ['127.0.0.1'], ttlS: 1 });
    await send(`http://well.test:${port}/`);
    // undici takes the socket for free once its answer was processed.
    await immediate();
    nowMs = 100_000;
    dns.set('well.test', { fault: 'silent' });
    expect(await send(`http://well.test:${port}/`)).toMatchObject({ kind: 'response' });
    expect(dns.asked()).toHaveLength(1);
  });

  it('fails with the name, not with the connection, when its deadline passes during the look-up', async () => {
    dns.set('silent.test', { fault: 'silent' });
    const { send, resolver } = newSender();
    expect(await send('http://silent.test/', 100)).toMatchObject(failure('dns'));
    // Nobody waits for it any more.
    expect(resolver.openLookups).toBe(0);
  });

  it('lets a look-up go on for the others when its deadline passes', async () => {
    const { port } = await receiver();
    dns.set('slow.test', { a: ['127.0.0.1'], delayMs: 300 });
    const { send } = newSender();
    const [short, long] = await Promise.all([
      send(`http://slow.test:${port}/`, 100),
      send(`http://slow.test:${port}/`, 5_000),
    ]);
    expect(short).toMatchObject(failure('dns'));
    expect(long).toMatchObject({ kind: 'response', status: 200 });
    expect(dns.asked()).toHaveLength(1);
  });

  it('is deferred, not failed, when its deadline passes or its turn does not come behind our own limit', async () => {
    dns.set('silent.test', { fault: 'silent' });
    const { send } = newSender({ maxLookups: 2, timeoutMs: 5_000 });
    const holder = send('http://silent.test/', 1_500);
    await dns.untilAsked(1);
    expect(await send('http://behind.test/', 100)).toMatchObject({ kind: 'deferred' });
    expect(await send('http://behind.test/', 5_000)).toMatchObject({ kind: 'deferred' });
    expect(await holder).toMatchObject(failure('dns'));
    expect(dns.asked('behind.test')).toEqual([]);
  });

  it('is deferred when it waited for our limit first and its deadline passes later, before it is sent', async () => {
    dns.set('holder.test', { fault: 'NXDOMAIN', delayMs: 200 });
    dns.set('silent.test', { fault: 'silent' });
    const { send } = newSender({ maxLookups: 2 });
    const holder = send('http://holder.test/');
    await dns.untilAsked(1);
    expect(await send('http://silent.test/', 400)).toMatchObject({ kind: 'deferred' });
    expect(await holder).toMatchObject(failure('dns'));
    expect(dns.asked('silent.test')).toHaveLength(1);
  });

  it('of another tenant does not wait for it', async () => {
    const { port } = await receiver();
    dns.set('well.test', { a: ['127.0.0.1'] });
    const { send } = newSender({ maxLookups: 4 });
    for (let i = 0; i < 50; i += 1) {
      dns.set(`dead-${i}.test`, { fault: 'silent' });
      void send(`http://dead-${i}.test/`, 5_000, 'a');
    }
    const started = performance.now();
    expect(await send(`http://well.test:${port}/`, 5_000, 'b')).toMatchObject({ status: 200 });
    expect(performance.now() - started).toBeLessThan(1_000);
  });
});

it('a literal address never waits for the resolver', async () => {
  const { port } = await receiver();
  const { send } = newSender({}, { resolve: () => expect.fail('looked up') });
  expect(await send(`http://127.0.0.1:${port}/`)).toMatchObject({ status: 200 });
});

it('a request that is ended before anything was sent is deferred, one after that is not known', async () => {
  const hanging = createTcpServer((socket) => socket.on('error', () => undefined)).listen(0, '127.0.0.1');
  await once(hanging, 'listening');
  cleanUp.push(() => hanging.close());
  dns.set('silent.test', { fault: 'silent' });
  const { send, sender } = newSender();
  const looking = send('http://silent.test/');
  const sent = send(`http://127.0.0.1:${(hanging.address() as AddressInfo).port}/`);
  const [socket] = (await once(hanging, 'connection')) as [NodeJS.ReadableStream];
  await once(socket, 'data');
  sender.abortAll();
  expect(await looking).toMatchObject({ kind: 'deferred' });
  expect(await sent).toMatchObject(failure('aborted'));
});

it('a request that waits for a socket that others hold is deferred at its deadline', async () => {
  const hanging = createServer(() => undefined).listen(0, '127.0.0.1');
  await once(hanging, 'listening');
  cleanUp.push(() => {
    hanging.closeAllConnections();
    hanging.close();
  });
  const url = `http://127.0.0.1:${(hanging.address() as AddressInfo).port}/`;
  const { send } = newSender({}, { socketsPerOrigin: 1 });
  const holder = send(url, 400, 'a');
  await once(hanging, 'request');
  expect(await send(url, 100, 'b')).toMatchObject({ kind: 'deferred' });
  expect(await holder).toMatchObject(failure('timeout'));
});
