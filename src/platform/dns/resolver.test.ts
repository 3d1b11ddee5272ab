import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { DnsServer } from './dns-server.fixture.ts';
import { type NameResolverOptions, type NameResult, NameResolver } from './resolver.ts';

let server: DnsServer;
let folder: string;
/** The resolver's clock, for times to live. */
let clockMs: number;
const lookups: string[] = [];
const refusals: string[] = [];
const resolvers: NameResolver[] = [];

beforeEach(async () => {
  server = await DnsServer.start();
  folder = await mkdtemp(path.join(tmpdir(), 'relayops-dns-'));
  clockMs = 0;
});
afterEach(async () => {
  for (const resolver of resolvers.splice(0)) resolver.close();
  lookups.length = 0;
  refusals.length = 0;
  await server.close();
  await rm(folder, { recursive: true });
});

function newResolver(options: Partial<NameResolverOptions> = {}): NameResolver {
  const resolver = new NameResolver({
    servers: [server.address],
    timeoutMs: 2_000,
    maxLookups: 8,
    maxCachedNames: 100,
    hostsPath: path.join(folder, 'hosts'),
    resolvConfPath: path.join(folder, 'resolv.conf'),
    now: () => clockMs,
    observer: {
      onLookup: (result) => void lookups.push(result),
      onRefused: (why) => void refusals.push(why),
    },
    ...options,
  });
  resolvers.push(resolver);
  return resolver;
}

/** The result, in short: addresses, or why there is none. */
const brief = (result: NameResult): string | readonly string[] => {
  if (result.kind === 'addresses') return result.addresses.map(({ address }) => address);
  return result.kind === 'failed' ? result.reason : result.why;
};

const ask = (resolver: NameResolver, name: string, share = 'tenant'): Promise<string | readonly string[]> =>
  new Promise((resolve) => void resolver.resolve(name, share, (result) => resolve(brief(result))));

/** Waits without a listener, for look-ups that are to stay open. */
const hold = (resolver: NameResolver, name: string, share: string) =>
  resolver.resolve(name, share, () => undefined);

describe('a look-up', () => {
  it('finds the addresses of both families', async () => {
    server.set('both.test', { a: ['192.0.2.1', '192.0.2.2'], aaaa: ['2001:db8::1'] });
    const found = await ask(newResolver(), 'both.test');
    expect([...found].sort()).toEqual(['192.0.2.1', '192.0.2.2', '2001:db8::1']);
  });

  it('is content with one family when the other has none, fails, or does not answer', async () => {
    const resolver = newResolver();
    server.set('four.test', { a: ['192.0.2.1'] });
    server.set('six.test', { aaaa: ['2001:db8::1'] });
    server.set('broken-six.test', { a: ['192.0.2.1'], faultOfAaaa: 'SERVFAIL' });
    server.set('silent-six.test', { a: ['192.0.2.1'], faultOfAaaa: 'silent' });
    expect(await ask(resolver, 'four.test')).toEqual(['192.0.2.1']);
    expect(await ask(resolver, 'six.test')).toEqual(['2001:db8::1']);
    expect(await ask(resolver, 'broken-six.test')).toEqual(['192.0.2.1']);
    const started = performance.now();
    expect(await ask(resolver, 'silent-six.test')).toEqual(['192.0.2.1']);
    expect(performance.now() - started).toBeLessThan(1_000);
  });

  it('says why there is no address', async () => {
    const resolver = newResolver({ timeoutMs: 700 });
    server.set('empty.test', {});
    server.set('broken.test', { fault: 'SERVFAIL' });
    server.set('silent.test', { fault: 'silent' });
    server.set('half.test', { faultOfAaaa: 'silent' });
    expect(await ask(resolver, 'missing.test')).toBe('not_found');
    expect(await ask(resolver, 'empty.test')).toBe('not_found');
    expect(await ask(resolver, 'broken.test')).toBe('server_failure');
    expect(await ask(resolver, 'half.test')).toBe('timeout');
    const started = performance.now();
    expect(await ask(resolver, 'silent.test')).toBe('timeout');
    expect(performance.now() - started).toBeLessThan(2_000);
    // c-ares waits 250 ms at least before it asks again.
    expect(server.asked('silent.test').length).toBeGreaterThan(1);
    expect(lookups).toEqual(['not_found', 'not_found', 'server_failure', 'timeout', 'timeout']);
  });

  it('goes on over TCP when an answer does not fit', async () => {
    server.set('long.test', { a: ['192.0.2.1'], truncated: true });
    expect(await ask(newResolver(), 'long.test')).toEqual(['192.0.2.1']);
  });

  it('takes a name that cannot be asked for as a failure', async () => {
    expect(await ask(newResolver(), 'a..test')).toBe('server_failure');
    expect(await ask(newResolver(), `${'x'.repeat(64)}.test`)).toBe('server_failure');
  });

  it('that cannot begin is a failure as well, and gives its slot back', async () => {
    const resolver = newResolver({ servers: ['not an address'], maxLookups: 2 });
    expect(await ask(resolver, 'one.test')).toBe('server_failure');
    expect(await ask(resolver, 'two.test')).toBe('server_failure');
    expect(resolver.openLookups).toBe(0);
  });

  it('is made once for all who wait for the name', async () => {
    server.set('shared.test', { a: ['192.0.2.1'], delayMs: 50 });
    const resolver = newResolver();
    const answers = await Promise.all(
      Array.from({ length: 64 }, (_, i) => ask(resolver, i % 2 ? 'shared.test' : 'SHARED.test', `t${i}`)),
    );
    expect(answers).toEqual(answers.map(() => ['192.0.2.1']));
    expect(server.asked()).toEqual(['shared.test']);
  });

  it('goes on when one of its waiters leaves, and ends with the last one', async () => {
    server.set('slow.test', { a: ['192.0.2.1'], delayMs: 100 });
    server.set('silent.test', { fault: 'silent' });
    const resolver = newResolver();
    const left = hold(resolver, 'slow.test', 'a');
    const stays = ask(resolver, 'slow.test', 'b');
    left!.leave();
    left!.leave();
    expect(await stays).toEqual(['192.0.2.1']);

    const waiters = [hold(resolver, 'silent.test', 'a'), hold(resolver, 'silent.test', 'b')];
    await server.untilAsked(2);
    for (const waiter of waiters) waiter!.leave();
    expect(lookups).toEqual(['answered', 'cancelled']);
    expect(resolver.openLookups).toBe(0);
    // Ended and forgotten: the next one who asks starts anew, and nothing of the first was kept.
    server.set('silent.test', { a: ['192.0.2.2'] });
    expect(await ask(resolver, 'silent.test')).toEqual(['192.0.2.2']);
  });
});

describe('names that no server is asked for', () => {
  it('are those of the hosts file, which is read again when it has changed', async () => {
    await writeFile(
      path.join(folder, 'hosts'),
      '# comment\n10.0.0.1 Receiver.test other # x\n::1 other\nnonsense\n',
    );
    const resolver = newResolver();
    expect(await ask(resolver, 'RECEIVER.test')).toEqual(['10.0.0.1']);
    expect(await ask(resolver, 'other')).toEqual(['10.0.0.1', '::1']);
    await writeFile(path.join(folder, 'hosts'), '10.0.0.2 receiver.test\n');
    clockMs += 5_000;
    expect(await ask(resolver, 'receiver.test')).toEqual(['10.0.0.2']);
    expect(server.asked()).toEqual([]);
  });

  it.each(['localhost', 'LOCALHOST', 'localhost.', 'app.localhost'])(
    'are %s, which is loopback',
    async (name) => {
      expect(await ask(newResolver(), name)).toEqual(['127.0.0.1', '::1']);
      expect(server.asked()).toEqual([]);
    },
  );
});

describe('the search list', () => {
  it('completes names as resolv.conf says, until one exists', async () => {
    await writeFile(
      path.join(folder, 'resolv.conf'),
      'search shop.svc.test svc.test.\noptions ndots:2 timeout:1\n',
    );
    server.set('receiver.svc.test', { a: ['192.0.2.1'] });
    server.set('hooks.example.test', { a: ['192.0.2.2'] });
    const resolver = newResolver();
    expect(await ask(resolver, 'receiver')).toEqual(['192.0.2.1']);
    expect(server.asked()).toEqual(['receiver.shop.svc.test', 'receiver.svc.test']);
    expect(await ask(resolver, 'hooks.example.test')).toEqual(['192.0.2.2']);
    expect(server.asked().slice(2)).toEqual(['hooks.example.test']);
  });

  it('does not hide that a name server failed', async () => {
    await writeFile(path.join(folder, 'resolv.conf'), 'search one.test two.test');
    server.set('receiver.one.test', { fault: 'SERVFAIL' });
    server.set('receiver.two.test', { a: ['192.0.2.1'] });
    expect(await ask(newResolver(), 'receiver')).toBe('server_failure');
  });

  it('does not make the deadline longer', async () => {
    await writeFile(path.join(folder, 'resolv.conf'), 'search one.test two.test three.test');
    for (const domain of ['one', 'two', 'three'])
      server.set(`receiver.${domain}.test`, { fault: 'NXDOMAIN', delayMs: 90 });
    expect(await ask(newResolver({ timeoutMs: 200 }), 'receiver')).toBe('timeout');
  });
});

describe('an answer', () => {
  it.each([
    ['its time to live', 30, 29_000, 31_000],
    ['a second at least', 0, 900, 1_100],
    ['a minute at most', 86_400, 59_000, 61_000],
  ])('is kept for %s', async (_, ttlS, freshMs, staleMs) => {
    server.set('kept.test', { a: ['192.0.2.1'], ttlS });
    const resolver = newResolver();
    await ask(resolver, 'kept.test');
    server.set('kept.test', { a: ['192.0.2.2'], ttlS });
    clockMs = freshMs;
    expect(await ask(resolver, 'kept.test')).toEqual(['192.0.2.1']);
    clockMs = staleMs;
    expect(await ask(resolver, 'kept.test')).toEqual(['192.0.2.2']);
    expect(lookups).toHaveLength(2);
  });

  it('that is a failure is kept for some seconds', async () => {
    const resolver = newResolver();
    expect(await ask(resolver, 'late.test')).toBe('not_found');
    server.set('late.test', { a: ['192.0.2.1'] });
    clockMs = 2_900;
    expect(await ask(resolver, 'late.test')).toBe('not_found');
    clockMs = 3_100;
    expect(await ask(resolver, 'late.test')).toEqual(['192.0.2.1']);
  });

  it('that is known is given before the call returns', async () => {
    server.set('known.test', { a: ['192.0.2.1'] });
    const resolver = newResolver();
    await ask(resolver, 'known.test');
    let result: NameResult | undefined;
    expect(resolver.resolve('known.test', 'tenant', (known) => (result = known))).toBeUndefined();
    expect(result).toMatchObject({ kind: 'addresses' });
  });
});

describe('the share of a tenant', () => {
  it('is what its names hold while their servers do not answer; another tenant is answered at once', async () => {
    const resolver = newResolver({ maxLookups: 8 });
    server.set('well.test', { a: ['192.0.2.1'] });
    const held = [];
    for (let i = 0; i < 60; i += 1) {
      server.set(`dead-${i}.test`, { fault: 'silent' });
      held.push(hold(resolver, `dead-${i}.test`, 'a'));
    }
    // Half of 8 slots, and half of the 32 places to wait.
    expect(held.filter((waiter) => waiter && !waiter.isQueued)).toHaveLength(4);
    expect(held.filter((waiter) => waiter?.isQueued)).toHaveLength(16);
    expect(refusals).toHaveLength(40);
    const started = performance.now();
    expect(await ask(resolver, 'well.test', 'b')).toEqual(['192.0.2.1']);
    expect(performance.now() - started).toBeLessThan(500);
    // The same dead name costs nothing more, whoever asks.
    expect(hold(resolver, 'dead-0.test', 'b')!.isQueued).toBe(false);
  });

  it('that waits for a turn longer than a second is refused, before anything was asked', async () => {
    const resolver = newResolver({ maxLookups: 2, timeoutMs: 5_000 });
    server.set('dead.test', { fault: 'silent' });
    hold(resolver, 'dead.test', 'a');
    expect(await ask(resolver, 'behind.test', 'a')).toBe('waited');
    expect(server.asked('behind.test')).toEqual([]);
    expect(resolver.openLookups).toBe(1);
  });

  it('takes its turn when a look-up of its own ends', async () => {
    const resolver = newResolver({ maxLookups: 2 });
    server.set('first.test', { a: ['192.0.2.1'], delayMs: 50 });
    server.set('second.test', { a: ['192.0.2.2'] });
    const first = ask(resolver, 'first.test', 'a');
    const second = ask(resolver, 'second.test', 'a');
    expect(server.asked('second.test')).toEqual([]);
    expect([await first, await second]).toEqual([['192.0.2.1'], ['192.0.2.2']]);
  });

  it('does not keep a name from a tenant that has room', async () => {
    const resolver = newResolver({ maxLookups: 4, timeoutMs: 5_000 });
    for (const name of ['dead-1.test', 'dead-2.test']) {
      server.set(name, { fault: 'silent' });
      hold(resolver, name, 'a');
    }
    server.set('wanted.test', { a: ['192.0.2.1'] });
    const waiting = ask(resolver, 'wanted.test', 'a');
    expect(await ask(resolver, 'wanted.test', 'b')).toEqual(['192.0.2.1']);
    expect(await waiting).toEqual(['192.0.2.1']);
    expect(server.asked('wanted.test')).toHaveLength(1);
  });
});
