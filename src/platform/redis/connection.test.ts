import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { describeRedis } from '../../../test/support/services.ts';
import { TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { RedisConnection, type RedisConnectionOptions, RedisUnavailable } from './connection.ts';
import { defineScript } from './script.ts';

const COUNT = defineScript("return redis.call('INCRBY', KEYS[1], ARGV[1])");
describeRedis('a connection to Redis', (url) => {
  const key = `test-connection-${process.pid}-${Date.now()}`;
  let opened: RedisConnection[];
  let direct: Redis;
  beforeEach(() => {
    opened = [];
    direct = new Redis(url);
  });
  afterEach(async () => {
    for (const connection of opened) connection.close();
    await direct.del(key);
    direct.disconnect();
  });

  function open(options: Partial<RedisConnectionOptions> = {}): RedisConnection {
    const quiet = { onUp: () => undefined, onError: () => undefined };
    const connection = new RedisConnection({ url, cluster: false, timeoutMs: 1_000, ...quiet, ...options });
    opened.push(connection);
    return connection;
  }

  async function openUp(options: Partial<RedisConnectionOptions> = {}): Promise<RedisConnection> {
    const up = Promise.withResolvers<void>();
    const connection = open({ onUp: up.resolve, ...options });
    await up.promise;
    return connection;
  }

  it('runs scripts, in the order in which they are given, whether the server knows them or not', async () => {
    const connection = await openUp();
    await direct.script('FLUSH');
    expect(await connection.run(COUNT, [key], [1])).toBe(1);
    const answers = await Promise.all([2, 3, 4].map((n) => connection.run(COUNT, [key], [n])));
    expect(answers).toEqual([3, 6, 10]);
  });

  it('refuses at once while it is not connected', async () => {
    const connection = open();
    expect(connection.up).toBe(false);
    await expect(connection.run(COUNT, [key], [1])).rejects.toThrow(RedisUnavailable);
  });

  it("passes the server's own errors on", async () => {
    await direct.set(key, 'no number');
    const connection = await openUp();
    await expect(connection.run(COUNT, [key], [1])).rejects.toThrow(/not an integer/);
    expect(connection.up).toBe(true);
  });

  it('gives up waiting after the time-out, but not for an answer that lies there unread', async () => {
    const proxy = await TcpProxy.start(url);
    const connection = await openUp({ timeoutMs: 150 });
    await connection.run(COUNT, [key], [1]);
    const answer = connection.run(COUNT, [key], [1]);
    const began = performance.now();
    while (performance.now() - began < 250);
    expect(await answer).toBe(2);
    const far = await openUp({ url: proxy.through(url), timeoutMs: 50 });
    proxy.stall();
    await expect(far.run(COUNT, [key], [1])).rejects.toThrow('no answer within 50 ms');
    far.close();
    await proxy.close();
  });

  it('comes back after a loss, and sends nothing twice', async () => {
    const proxy = await TcpProxy.start(url);
    const ups: number[] = [];
    const errors: Error[] = [];
    const connection = open({
      url: proxy.through(url),
      onUp: () => ups.push(performance.now()),
      onError: (error) => errors.push(error),
    });
    await expect.poll(() => ups.length).toBe(1);
    proxy.stall();
    const lost = connection.run(COUNT, [key], [1]);
    proxy.cut();
    await expect(lost).rejects.toThrow(RedisUnavailable);
    proxy.heal();
    await expect.poll(() => ups.length).toBe(2);
    expect(await connection.run(COUNT, [key], [0])).toBe(0);
    expect(errors.length).toBeGreaterThan(0);
    connection.close();
    await proxy.close();
  });
});
