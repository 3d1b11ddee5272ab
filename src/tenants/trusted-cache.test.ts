import { describe, expect, it } from 'vitest';
import { TrustedCache } from './trusted-cache.ts';

function held<V>(value: V, trustMs: number) {
  let release = (): void => undefined;
  let fail = (_error: Error): void => undefined;
  let calls = 0;
  const lookUp = () => {
    calls++;
    return new Promise<{ value: V; trustMs: number }>((resolve, reject) => {
      release = () => resolve({ value, trustMs });
      fail = reject;
    });
  };
  return { lookUp, release: () => release(), fail: (error: Error) => fail(error), calls: () => calls };
}

/** Lets what is ready to run, run. */
const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));
const found =
  <V>(value: V, trustMs: number) =>
  async () => ({ value, trustMs });

describe('TrustedCache', () => {
  it('counts the trusted time from the start of the look-up', async () => {
    const clock = { ms: 0, now: () => clock.ms };
    const cache = new TrustedCache<string>(clock, 10);
    const slow = held('a', 100);
    const value = cache.get('k', slow.lookUp);
    await turn();
    clock.ms = 60;
    slow.release();
    expect(await value).toBe('a');
    clock.ms = 99;
    expect(cache.peek('k')).toBe('a');
    clock.ms = 100;
    expect(cache.peek('k')).toBeUndefined();
  });

  it('makes one look-up of many, and a new one after a failure', async () => {
    const cache = new TrustedCache<string>({ now: () => 0 }, 10);
    const broken = held('a', 100);
    const waiting = [cache.get('k', broken.lookUp), cache.get('k', broken.lookUp)];
    await turn();
    broken.fail(new Error('away'));
    const outcomes = await Promise.allSettled(waiting);
    expect(outcomes.map((outcome) => outcome.status)).toEqual(['rejected', 'rejected']);
    expect(broken.calls()).toBe(1);
    expect(await cache.get('k', found('b', 100))).toBe('b');
  });

  it('does not keep what was dropped while it was looked up', async () => {
    const cache = new TrustedCache<string>({ now: () => 0 }, 10);
    const stale = held('before', 100);
    const early = cache.get('k', stale.lookUp);
    await turn();
    cache.drop('k');
    expect(await cache.get('k', found('after', 100))).toBe('after');
    stale.release();
    expect(await early).toBe('before');
    expect(cache.peek('k')).toBe('after');
  });

  it('keeps nothing that is trusted for no time', async () => {
    const cache = new TrustedCache<string>({ now: () => 0 }, 10);
    expect(await cache.get('k', found('a', 0))).toBe('a');
    expect(cache.peek('k')).toBeUndefined();
  });

  it('is bounded: the oldest finding makes room', async () => {
    const cache = new TrustedCache<number>({ now: () => 0 }, 2);
    for (const n of [1, 2, 3]) await cache.get(String(n), found(n, 100));
    expect([cache.peek('1'), cache.peek('2'), cache.peek('3')]).toEqual([undefined, 2, 3]);
  });
});
