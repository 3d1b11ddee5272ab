import { setTimeout as pause } from 'node:timers/promises';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { describeRedis } from '../../../test/support/services.ts';
import { TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { LocalRedis } from '../../platform/services/redis.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { Permit } from '../port.ts';
import { type TestProcess, TestProcesses } from './processes.fixture.ts';

const A = '0190aaaa-0000-7000-8000-00000000000a' as EndpointId;
const B = '0190aaaa-0000-7000-8000-00000000000b' as EndpointId;

describeRedis('redis coordination without Redis', (url) => {
  let processes: TestProcesses;
  let proxy: TcpProxy;
  beforeEach(async () => {
    processes = new TestProcesses();
    proxy = await TcpProxy.start(url);
  });
  afterEach(async () => {
    await processes.close();
    await proxy.close();
  });

  it('degrades within the time-out when the network goes silent, and nobody else waits', async () => {
    const one = await processes.start(proxy.through(url), { timeoutMs: 150 });
    const held = await one.slots(A, 2, 4);
    proxy.stall();
    const began = performance.now();
    const [first, second] = await Promise.all([one.slots(A, 9, 4), one.slots(B, 9, 4)]);
    expect(performance.now() - began).toBeLessThan(400);
    // The only process there is: its share is all, less what it holds.
    expect([first.permits.length, second.permits.length]).toEqual([2, 4]);
    expect(one.degradations).toEqual([{ isDegraded: true, reason: 'no answer within 150 ms' }]);
    const again = performance.now();
    expect(await one.coordination.take('t', 1, { ratePerSecond: 1, burst: 1 })).toEqual({ ok: true });
    expect(performance.now() - again).toBeLessThan(50);
    one.coordination.release(held.permits, true);
    proxy.heal();
    await one.untilDegraded(false);
    const other = await processes.start(url);
    expect((await other.slots(A, 9, 4)).permits).toHaveLength(2);
    expect((await other.slots(B, 9, 4)).permits).toHaveLength(0);
  });

  it('makes a connection that stays silent anew', async () => {
    const one = await processes.start(proxy.through(url), { timeoutMs: 100 });
    proxy.stall();
    await one.slots(A, 1, 1);
    await until(
      'the connection is given up',
      () => one.coordination.state().up,
      (up) => !up,
    );
    proxy.heal();
    await one.untilDegraded(false);
  });

  it('takes no notice of a connection that is back at once, but for telling Redis again what it holds', async () => {
    const one = await processes.start(proxy.through(url), { leaseMs: 60_000 });
    await one.slots(A, 2, 2);
    const client = new Redis(url);
    await client.del(`{${processes.prefix}:e:${A}}:slots`);
    proxy.cut();
    proxy.heal();
    const other = await processes.start(url);
    await until(
      'what is held is known again',
      () => client.exists(`{${processes.prefix}:e:${A}}:slots`),
      (count) => count === 1,
    );
    expect((await other.slots(A, 2, 2)).permits).toHaveLength(0);
    expect(one.degradations).toEqual([]);
    client.disconnect();
  });

  it('has no second burst for an outage', async () => {
    const one = await processes.start(proxy.through(url));
    const rate = { ratePerSecond: 0.01, burst: 4 };
    const ask = async (): Promise<number> => {
      const [grant] = await one.coordination.acquire([
        { endpointId: A, wanted: 3, limits: { maxConcurrency: 9, rate } },
      ]);
      return grant!.permits.length;
    };
    expect(await ask()).toBe(3);
    expect(await one.coordination.take('t', 4, rate)).toEqual({ ok: true });
    proxy.cut();
    await one.untilDegraded(true);
    expect(await ask()).toBe(1);
    expect(await one.coordination.take('t', 1, rate)).toMatchObject({ ok: false });
  });

  it('starts under local limits where there is no Redis, at once', async () => {
    const began = performance.now();
    const one = await processes.start('redis://127.0.0.1:1', {}, false);
    expect((await one.slots(A, 9, 4)).permits).toHaveLength(4);
    expect(performance.now() - began).toBeLessThan(500);
    expect(one.coordination.state()).toEqual({ up: false, degraded: true });
    expect(one.degradations).toHaveLength(1);
    expect(one.errors).toHaveLength(1);
  });

  it('goes on under its shares when the server stops, and returns by itself', async () => {
    const server = await LocalRedis.start();
    const one = await processes.start(server.url);
    // The second one knows that they are two.
    const two = await processes.start(server.url);
    const held: Permit[] = (await two.slots(A, 1, 6)).permits;
    await server.stop('kill');
    await Promise.all([one.untilDegraded(true), two.untilDegraded(true)]);
    const [slots, tokens] = await two.coordination.acquire([
      { endpointId: A, wanted: 9, limits: { maxConcurrency: 6, rate: null } },
      { endpointId: B, wanted: 99, limits: { maxConcurrency: 99, rate: { ratePerSecond: 0.01, burst: 10 } } },
    ]);
    // Half of six, of which one is held already; half of ten.
    expect([slots!.permits.length, tokens!.permits.length]).toEqual([2, 5]);
    const named = { ratePerSecond: 0.01, burst: 10 };
    expect(await two.coordination.take('t', 8, named), 'more than the share, less than all').toEqual({
      ok: true,
    });
    expect(await two.coordination.take('t', 1, named)).toMatchObject({ ok: false });
    expect(await two.coordination.take('u', 11, named)).toMatchObject({ ok: false });
    two.coordination.release(held, true);
    await server.startAgain();
    await Promise.all([one.untilDegraded(false), two.untilDegraded(false)]);
    // What was granted and released meanwhile is counted.
    expect((await one.slots(A, 9, 6)).permits).toHaveLength(4);
    expect(two.degradations.map(({ isDegraded }) => isDegraded)).toEqual([true, false]);
    await processes.close();
    await server.dispose();
  });

  it('counts right after whatever the network did', async () => {
    const pair = [
      await processes.start(proxy.through(url), { timeoutMs: 50, leaseMs: 900 }),
      await processes.start(url),
    ] as const;
    const working = new AbortController();
    const work = async (one: TestProcess): Promise<void> => {
      while (!working.signal.aborted) {
        const { permits } = await one.slots(A, 3, 5);
        await pause(Math.random() * 5);
        one.coordination.release(permits, true);
      }
    };
    const workers = Promise.all([...pair, ...pair].map(work));
    for (let storm = 0; storm < 4; storm++) {
      await pause(40);
      if (storm % 2 === 0) proxy.cut();
      else proxy.stall();
      await pair[0].untilDegraded(true);
      await pause(30);
      proxy.heal();
      await pair[0].untilDegraded(false);
    }
    working.abort();
    await workers;
    for (const one of pair) expect(one.coordination.held().size).toBe(0);
    for (const one of pair) {
      await until(
        'every slot is free',
        async () => {
          const { permits } = await one.slots(A, 9, 5);
          one.coordination.release(permits, true);
          return permits.length;
        },
        (slots) => slots === 5,
      );
    }
  });
});
