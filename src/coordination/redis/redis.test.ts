import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { describeRedis } from '../../../test/support/services.ts';
import { TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { RedisConnection } from '../../platform/redis/connection.ts';
import { LocalRedis, LocalRedisCluster } from '../../platform/services/redis.ts';
import type { EndpointId } from '../../shared/ids.ts';
import { coordinationConformance } from '../conformance.ts';
import { TestProcesses } from './processes.fixture.ts';
import { ACQUIRE, RELEASE } from './scripts.ts';

const A = '0190aaaa-0000-7000-8000-00000000000a' as EndpointId;
const B = '0190aaaa-0000-7000-8000-00000000000b' as EndpointId;

describeRedis('redis coordination', (url) => {
  let processes: TestProcesses;
  beforeEach(() => {
    processes = new TestProcesses();
  });
  afterEach(() => processes.close());

  coordinationConformance('redis', async () => ({
    coordination: (await processes.start(url)).coordination,
    advance: (ms) => pause(ms),
    close: () => processes.close(),
  }));

  it('keeps two processes within the slots together, whatever they ask at a time', async () => {
    const both = [await processes.start(url), await processes.start(url)];
    let out = 0;
    let most = 0;
    const work = async (index: number): Promise<void> => {
      for (let round = 0; round < 25; round++) {
        const { permits } = await both[index % 2]!.slots(A, 3, 5);
        out += permits.length;
        most = Math.max(most, out);
        await pause(Math.random() * 3);
        out -= permits.length;
        both[index % 2]!.coordination.release(permits, true);
      }
    };
    await Promise.all([0, 1, 2, 3, 4, 5].map(work));
    expect(most).toBe(5);
    expect(both.flatMap((one) => one.degradations)).toEqual([]);
    await until(
      'all slots are free',
      () => both[0]!.slots(B, 1, 1),
      ({ permits }) => permits.length === 1,
    );
  });

  it('keeps two processes within the rate together', async () => {
    const both = [await processes.start(url), await processes.start(url)];
    const limits = { maxConcurrency: 1_000, rate: { ratePerSecond: 100, burst: 20 } };
    const began = performance.now();
    let got = 0;
    const work = async ({ coordination }: (typeof both)[number]): Promise<void> => {
      while (performance.now() - began < 300) {
        const [grant] = await coordination.acquire([{ endpointId: A, wanted: 3, limits }]);
        got += grant!.permits.length;
        coordination.release(grant!.permits, true);
      }
    };
    await Promise.all([...both, ...both].map(work));
    const allowed = 20 + (performance.now() - began) * 0.1;
    expect(got).toBeLessThanOrEqual(allowed);
    expect(got).toBeGreaterThan(35);
  });

  it('shares a named bucket, and gives unused tokens back for everybody', async () => {
    const [one, two] = [await processes.start(url), await processes.start(url)];
    const limit = { ratePerSecond: 0.01, burst: 3 };
    expect(await one.coordination.take('t', 2, limit)).toEqual({ ok: true });
    expect(await two.coordination.take('t', 2, limit)).toMatchObject({ ok: false });
    const limits = { maxConcurrency: 9, rate: limit };
    const [grant] = await one.coordination.acquire([{ endpointId: A, wanted: 3, limits }]);
    one.coordination.release(grant!.permits, false);
    const seen = await until(
      'tokens came back',
      () => two.coordination.acquire([{ endpointId: A, wanted: 3, limits }]),
      ([grant]) => grant!.permits.length > 0,
    );
    expect(seen[0]!.permits).toHaveLength(3);
  });

  it('keeps the slots of a process that is busy with them for longer than a lease', async () => {
    const [one, two] = [await processes.start(url, { leaseMs: 300 }), await processes.start(url)];
    expect((await one.slots(A, 2, 2)).permits).toHaveLength(2);
    await pause(700);
    expect((await two.slots(A, 2, 2)).permits).toHaveLength(0);
  });

  it('frees the slots of a process that vanished after its lease, those of one that closed at once', async () => {
    const proxy = await TcpProxy.start(url);
    const vanishing = await processes.start(proxy.through(url), { leaseMs: 400 });
    const closing = await processes.start(url);
    const left = await processes.start(url);
    await vanishing.slots(A, 3, 3);
    await closing.slots(B, 3, 3);
    proxy.cut();
    await closing.coordination.close();
    expect((await left.slots(A, 3, 3)).permits).toHaveLength(0);
    expect((await left.slots(B, 3, 3)).permits).toHaveLength(3);
    await until(
      'the lease ran out',
      () => left.slots(A, 3, 3),
      ({ permits }) => permits.length === 3,
    );
    await proxy.close();
  });

  it('reports how long questions for permits take', async () => {
    const one = await processes.start(url);
    await one.slots(A, 1, 1);
    expect(one.acquireMs).toHaveLength(1);
    expect(one.acquireMs[0]).toBeGreaterThan(0);
  });

  describe('a server of its own', () => {
    let server: LocalRedis;
    let client: Redis;
    beforeAll(async () => {
      server = await LocalRedis.start();
      client = new Redis(server.url);
      client.on('error', () => undefined);
    });
    afterAll(async () => {
      client.disconnect();
      await server.dispose();
    });

    it('puts an end on every key', async () => {
      await client.flushall();
      const one = await processes.start(server.url);
      const limits = { maxConcurrency: 5, rate: { ratePerSecond: 1, burst: 4 } };
      const [grant] = await one.coordination.acquire([{ endpointId: A, wanted: 3, limits }]);
      one.coordination.release(grant!.permits.slice(0, 1), false);
      await one.coordination.take('t', 1, limits.rate);
      await one.slots(B, 1, 1);
      const keys = (await client.keys('*')).sort();
      const tag = `{${processes.prefix}:e:${A}}`;
      expect(keys).toEqual(
        [
          `${tag}:slots`,
          `${tag}:bucket`,
          `{${processes.prefix}:e:${B}}:slots`,
          `{${processes.prefix}:t:t}`,
          `{${processes.prefix}:members}`,
        ].sort(),
      );
      for (const key of keys) {
        expect(await client.pttl(key), key).toBeGreaterThan(0);
        expect(await client.pttl(key), key).toBeLessThanOrEqual(5_000);
      }
    });

    it('lets a late command change nothing', async () => {
      const connection = await connected(server.url);
      const acquire = (sequence: number, mine: number, wanted: number) =>
        connection.run(
          ACQUIRE,
          ['{late}:slots', '{late}:bucket'],
          ['p', sequence, mine, wanted, 5, 5_000, '', ''],
        );
      expect(await acquire(2, 0, 3)).toEqual([3, -1]);
      expect(await acquire(1, 0, 1)).toEqual([0, -1]);
      await connection.run(RELEASE, ['{late}:slots', '{late}:bucket'], ['p', 1, 3, 5_000, 0, '', '']);
      expect(await client.hget('{late}:slots', 'p')).toMatch(/^3:\d+:2$/);
      await connection.run(RELEASE, ['{late}:slots', '{late}:bucket'], ['p', 3, 1, 5_000, 0, '', '']);
      expect(await client.hget('{late}:slots', 'p')).toMatch(/^2:\d+:3$/);
      connection.close();
    });

    it('mends itself when Redis forgets everything', async () => {
      const [one, two] = [
        await processes.start(server.url, { leaseMs: 300 }),
        await processes.start(server.url),
      ];
      const { permits } = await one.slots(A, 2, 3);
      await client.flushall();
      // Its own next question counts what it holds …
      expect((await one.slots(A, 5, 3)).permits).toHaveLength(1);
      await client.flushall();
      // … and its heartbeat tells the others.
      await until(
        'its slots are known again',
        () => client.keys(`*${A}*`),
        (keys) => keys.length === 1,
      );
      expect((await two.slots(A, 5, 3)).permits).toHaveLength(0);
      await client.flushall();
      one.coordination.release(permits, true);
      await until(
        'slots',
        () => two.slots(A, 5, 3),
        (grant) => grant.permits.length > 0,
      );
      await client.script('FLUSH');
      expect((await two.slots(B, 5, 3)).permits).toHaveLength(3);
      expect([...one.degradations, ...two.degradations]).toEqual([]);
    });
  });
});

describeRedis('redis coordination on a cluster', () => {
  let cluster: LocalRedisCluster;
  const processes = new TestProcesses();
  beforeAll(async () => {
    cluster = await LocalRedisCluster.start();
  });
  afterAll(async () => {
    await processes.close();
    await cluster.dispose();
  });

  it('shares slots and rates of endpoints that lie on all its nodes', async () => {
    const [one, two] = [
      await processes.start(cluster.url, { cluster: true }),
      await processes.start(cluster.nodes[2]!.url, { cluster: true }),
    ];
    const ids = Array.from({ length: 40 }, (_, i) => A.replace(/..$/, String(i + 10)) as EndpointId);
    const limits = { maxConcurrency: 9, rate: { ratePerSecond: 0.01, burst: 5 } };
    const ask = (count: number) => ids.map((endpointId) => ({ endpointId, wanted: count, limits }));
    const [first, second] = await Promise.all([
      one.coordination.acquire(ask(3)),
      two.coordination.acquire(ask(3)),
    ]);
    const got = ids.map((_, i) => first[i]!.permits.length + second[i]!.permits.length);
    expect(got).toEqual(ids.map(() => 5));
    one.coordination.release(
      first.flatMap((grant) => grant.permits),
      false,
    );
    const back = ids.map(() => 0);
    const askAgain = async (): Promise<number[]> => {
      const grants = await two.coordination.acquire(ask(5));
      grants.forEach((grant, i) => (back[i]! += grant.permits.length));
      return back;
    };
    const lent = first.map((grant) => grant.permits.length);
    await until('what was released', askAgain, (seen) => seen.every((count, i) => count === lent[i]));
    expect(await one.coordination.take('t', 1, limits.rate)).toEqual({ ok: true });
    const perNode = await Promise.all(cluster.nodes.map((node) => node.ask('DBSIZE')));
    for (const size of perNode) expect(size).not.toBe(':0');
    expect([...one.degradations, ...two.degradations]).toEqual([]);
  });
});

async function connected(url: string): Promise<RedisConnection> {
  const up = Promise.withResolvers<void>();
  const connection = new RedisConnection({
    url,
    cluster: false,
    timeoutMs: 1_000,
    onUp: up.resolve,
    onError: up.reject,
  });
  await up.promise;
  return connection;
}
