import { once } from 'node:events';
import { createServer, type IncomingMessage, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { text } from 'node:stream/consumers';
import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DnsServer } from '../../src/platform/dns/dns-server.fixture.ts';
import { Relay } from '../support/relay.ts';
import type { Attempt, Endpoint, RelayClient } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

let dns: DnsServer;
let receiver: Receiver;
let relay: Relay | undefined;

beforeEach(async () => {
  dns = await DnsServer.start();
  receiver = await Receiver.start();
});
afterEach(async () => {
  await relay?.close();
  relay = undefined;
  await receiver.close();
  await dns.close();
});

/** Answers 200 and closes, so that each request needs a socket of its own, and knows when each event came. */
class Receiver {
  readonly #server: Server;
  /** By the payload's `n`. */
  readonly cameMs = new Map<number, number>();

  private constructor(server: Server) {
    this.#server = server;
    server.on('request', (request: IncomingMessage, response) => {
      void text(request).then((body) => {
        const { n } = JSON.parse(body) as { n: number };
        if (!this.cameMs.has(n)) this.cameMs.set(n, performance.now());
        response.writeHead(200, { connection: 'close' }).end();
      });
    });
  }

  static async start(): Promise<Receiver> {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    return new Receiver(server);
  }

  url(host: string): string {
    return `http://${host}:${(this.#server.address() as AddressInfo).port}/`;
  }

  async close(): Promise<void> {
    this.#server.closeAllConnections();
    this.#server.close();
    await once(this.#server, 'close');
  }
}

async function allAttempts(api: RelayClient): Promise<Attempt[]> {
  const deliveries = await api.deliveries();
  return (await Promise.all(deliveries.map(({ deliveryId }) => api.attempts(deliveryId)))).flat();
}

const errorCodes = (attempts: readonly Attempt[]) => [...new Set(attempts.map(({ errorCode }) => errorCode))];

describe('a name server that never answers', () => {
  it('delays its own endpoint only', async () => {
    relay = await Relay.start({
      'delivery.dnsServers': [dns.address],
      'delivery.timeoutMs': 15_000,
      'delivery.maxTimeoutMs': 15_000,
      'delivery.leaseMs': 20_000,
      'delivery.connectTimeoutMs': 5_000,
      'shutdown.timeoutMs': 100,
    });
    dns.set('silent.test', { fault: 'silent' });
    dns.set('well.test', { a: ['127.0.0.1'], ttlS: 0 });
    const other = await relay.newTenant();
    await relay.api.endpoint('http://silent.test/', 'a.one', { maxConcurrency: 64 });
    const well = await other.api.endpoint(receiver.url('well.test'), 'b.one');
    await relay.api.sendMany('a.one', 64);
    await dns.untilAsked(1);

    const latencies: number[] = [];
    for (let n = 0; n < 60; n += 1) {
      const sentMs = performance.now();
      await other.api.send('b.one', { n });
      await until('received', () => receiver.cameMs.has(n), Boolean);
      latencies.push(receiver.cameMs.get(n)! - sentMs);
      await pause(30);
    }
    expect(Math.max(...latencies)).toBeLessThan(500);
    await other.api.untilSettled();
    expect(errorCodes(await allAttempts(other.api))).toEqual([null]);
    expect(dns.asked('well.test').length).toBeGreaterThan(1);
    const { state, health } = await other.api.ok<Endpoint>('GET', `/v1/endpoints/${well.endpointId}`);
    expect({ state, health: health.state }).toEqual({ state: 'active', health: 'ok' });

    await until(
      'the silent one fails',
      () => allAttempts(relay!.api),
      (seen) => seen.length >= 64,
      20_000,
    );
    expect(errorCodes(await allAttempts(relay.api))).toEqual(['dns']);
  });

  it('costs deliveries that wait behind our own limit no attempt', async () => {
    relay = await Relay.start({
      'delivery.dnsServers': [dns.address],
      'delivery.dnsLookups': 2,
      'delivery.dnsTimeoutMs': 1_500,
      'delivery.backoffBaseMs': 4_000,
      'delivery.backoffCapMs': 4_000,
    });
    const names = Array.from({ length: 12 }, (_, i) => `name-${i}.test`);
    for (const name of names) {
      dns.set(name, { fault: 'silent' });
      await relay.api.endpoint(receiver.url(name), 'a.one');
    }
    const { eventId } = await relay.api.send('a.one', { n: 1 });
    const { dnsRefused } = relay.process.runtime.metrics;
    await until(
      'refused',
      async () => (await dnsRefused.get()).values.filter(({ value }) => value > 0),
      (reasons) => reasons.length === 2,
    );
    const asked = new Set(dns.asked());
    expect(asked.size).toBeLessThan(names.length / 2);
    for (const name of names) dns.set(name, { a: ['127.0.0.1'] });
    await relay.api.untilSettled(20_000);
    const deliveries = await relay.api.deliveries({ eventId });
    expect(deliveries.map(({ state }) => state)).toEqual(names.map(() => 'succeeded'));
    const counts = await Promise.all(
      deliveries.map(async ({ deliveryId }) => (await relay!.api.attempts(deliveryId)).length),
    );
    expect(counts.filter((count) => count > 1).length).toBeLessThanOrEqual(asked.size);
  });

  it('does not keep a process from stopping, and nothing that was not sent counts as unknown', async () => {
    relay = await Relay.start({ 'delivery.dnsServers': [dns.address], 'shutdown.timeoutMs': 50 });
    dns.set('silent.test', { fault: 'silent' });
    await relay.api.endpoint('http://silent.test/', 'a.one');
    await relay.api.send('a.one', {});
    await dns.untilAsked(1);
    await relay.process.stop();
    expect(await relay.count('delivery_attempts')).toBe(0);
    expect(await relay.count('delivery_work', 'lease_token IS NULL')).toBe(1);
  });
});

it.each([
  ['SERVFAIL', { fault: 'SERVFAIL' }],
  ['NXDOMAIN', { fault: 'NXDOMAIN' }],
] as const)('a name server that answers %s fails the endpoint, to be tried again', async (_, reply) => {
  relay = await Relay.start({ 'delivery.dnsServers': [dns.address] });
  dns.set('broken.test', reply);
  await relay.api.endpoint('http://broken.test/', 'a.one', { retry: { maxAttempts: 2 } });
  const { eventId } = await relay.api.send('a.one');
  const { deliveryId, state } = await relay.api.untilEnded(eventId);
  expect(state).toBe('dead');
  expect(
    (await relay.api.attempts(deliveryId)).map(({ outcome, errorCode }) => [outcome, errorCode]),
  ).toEqual([
    ['retryable', 'dns'],
    ['retryable', 'dns'],
  ]);
});
