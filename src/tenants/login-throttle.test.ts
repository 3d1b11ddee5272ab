import { describe, expect, it } from 'vitest';
import type { RelayError } from '../shared/errors.ts';
import { LoginThrottle, type LoginTry } from './login-throttle.ts';

const MINUTE_MS = 60_000;
const EMAIL = 'ann@example.com';
const nobodyKnown = async (): Promise<boolean> => false;

function start() {
  const clock = { ms: 0, now: () => clock.ms };
  const throttle = new LoginThrottle(clock);
  /** Seconds to wait, or 0 when the try was let through; it then counts as a failure. */
  const fail = async (email: string, address: string, isKnown = nobodyKnown): Promise<number> => {
    try {
      await throttle.begin(email, address, isKnown);
      return 0;
    } catch (error) {
      return (error as RelayError).occurrence.retryAfterSeconds!;
    }
  };
  const begin = (email: string, address: string): Promise<LoginTry> =>
    throttle.begin(email, address, nobodyKnown);
  return { clock, throttle, fail, begin };
}

async function times(count: number, one: (i: number) => Promise<number>): Promise<number[]> {
  const waits = [];
  for (let i = 0; i < count; i++) waits.push(await one(i));
  return waits;
}

describe('one address', () => {
  it('has ten failures of an account, then one in two minutes', async () => {
    const { clock, fail } = start();
    expect(await times(10, () => fail(EMAIL, '192.0.2.1'))).toEqual(Array(10).fill(0));
    expect(await fail(EMAIL, '192.0.2.1')).toBe(120);
    clock.ms += 119_999;
    expect(await fail(EMAIL, '192.0.2.1')).toBe(1);
    clock.ms += 1;
    expect(await fail(EMAIL, '192.0.2.1')).toBe(0);
    expect(await fail(EMAIL, '192.0.2.1')).toBe(120);
  });

  it('never slows down the others, however long it goes on', async () => {
    const { clock, fail, begin } = start();
    for (let second = 0; second < 7_200; second++) {
      await fail(EMAIL, '192.0.2.1');
      clock.ms += 1_000;
    }
    (await begin(EMAIL, '198.51.100.1')).succeeded();
  });

  it('has thirty failures over all accounts, then one in ten seconds', async () => {
    const { fail } = start();
    const waits = await times(31, (i) => fail(`u${i}@example.com`, '192.0.2.1'));
    expect(waits.indexOf(10)).toBe(30);
    expect(await fail(EMAIL, '198.51.100.1')).toBe(0);
  });

  it('is a whole /64 of IPv6, and the IPv4 address in a mapped one', async () => {
    const { fail } = start();
    await times(10, () => fail(EMAIL, '2001:db8:1:2::1'));
    expect(await fail(EMAIL, '2001:db8:1:2:ffff::9')).toBe(120);
    expect(await fail(EMAIL, '2001:db8:1:3::1')).toBe(0);
    await times(10, () => fail('b@example.com', '192.0.2.1'));
    expect(await fail('b@example.com', '::ffff:192.0.2.1')).toBe(120);
    expect(await fail('b@example.com', '::ffff:192.0.2.2')).toBe(0);
  });
});

describe('one account', () => {
  const addressOf = (i: number): string => `203.0.${i >> 8}.${i & 255}`;

  it('is slowed down over all addresses: of ten addresses with ten tries each, twenty get through', async () => {
    const { fail } = start();
    const waits = await times(100, (i) => fail(EMAIL, addressOf(i % 10)));
    expect(waits.filter((wait) => wait === 0)).toHaveLength(20);
    expect(await fail('other@example.com', addressOf(0))).toBe(0);
  });

  it('waits longer with each failure, up to a minute, and no longer for tries that were refused', async () => {
    const { clock, fail } = start();
    await times(20, (i) => fail(EMAIL, addressOf(i)));
    const delays: number[] = [];
    for (let i = 20; i < 80; i++) {
      await times(5, () => fail(EMAIL, addressOf(1_000 + i)));
      const wait = await fail(EMAIL, addressOf(i));
      delays.push(wait);
      clock.ms += wait * 1_000;
      expect(await fail(EMAIL, addressOf(i))).toBe(0);
    }
    expect(delays[0]).toBe(1);
    expect(delays).toEqual([...delays].sort((a, b) => a - b));
    expect(delays.at(-1)).toBeGreaterThanOrEqual(55);
    expect(delays.at(-1)).toBeLessThanOrEqual(60);
  });

  it('forgets its failures with time', async () => {
    const { clock, fail } = start();
    await times(20, (i) => fail(EMAIL, addressOf(i)));
    expect(await fail(EMAIL, addressOf(30))).toBeGreaterThan(0);
    clock.ms += 20 * MINUTE_MS;
    expect(await times(20, (i) => fail(EMAIL, addressOf(100 + i)))).toEqual(Array(20).fill(0));
  });

  it('lets its owner in at an address that it is known at, while others are refused', async () => {
    const { fail } = start();
    await times(40, (i) => fail(EMAIL, addressOf(i)));
    const isKnown = async (): Promise<boolean> => true;
    expect(await fail(EMAIL, '198.51.100.1')).toBeGreaterThan(0);
    expect(await times(5, () => fail(EMAIL, '198.51.100.1', isKnown))).toEqual(Array(5).fill(0));
    // A budget of its own: five at once.
    expect(await fail(EMAIL, '198.51.100.1', isKnown)).toBeGreaterThan(0);
  });
});

describe('all together', () => {
  it('have two hundred failures, then ten a second', async () => {
    const { clock, fail } = start();
    const waits = await times(201, (i) => fail(`u${i}@example.com`, `10.0.${i >> 8}.${i & 255}`));
    expect(waits.findIndex((wait) => wait > 0)).toBe(200);
    clock.ms += 1_000;
    const later = await times(20, (i) => fail(`v${i}@example.com`, `10.1.0.${i}`));
    expect(later.filter((wait) => wait === 0)).toHaveLength(10);
  });

  it('cannot push out what still counts, whatever they send, and take bounded room', async () => {
    const { clock, throttle, fail } = start();
    for (let i = 0; i < 50; i++) {
      await fail(EMAIL, `203.0.113.${i}`);
      clock.ms += 60_000;
    }
    await times(40, (i) => fail(EMAIL, `203.0.112.${i}`));
    // An hour of the fastest spraying that is let through, each try under a new name and address.
    let sent = 0;
    for (let step = 0; step < 3_600; step++) {
      for (let i = 0; i < 11; i++, sent++)
        await fail(`u${sent}@x.example`, `10.${sent >> 16}.${(sent >> 8) & 255}.${sent & 255}`);
      clock.ms += 1_000;
      if (step === 60) {
        // One failure less by now; forgotten, it would have twenty.
        const waits = await times(5, (i) => fail(EMAIL, `198.51.100.${i}`));
        expect(waits.filter((wait) => wait === 0).length).toBeLessThan(4);
      }
    }
    expect(throttle.size).toBeLessThan(80_000);
  });
});

describe('a try', () => {
  it('that succeeds makes the failures of its address forgotten, and counts nowhere', async () => {
    const { fail, begin } = start();
    await times(9, () => fail(EMAIL, '192.0.2.1'));
    (await begin(EMAIL, '192.0.2.1')).succeeded();
    expect(await times(10, () => fail(EMAIL, '192.0.2.1'))).toEqual(Array(10).fill(0));
    for (let i = 0; i < 300; i++) (await begin('b@example.com', '192.0.2.2')).succeeded();
  });

  it('that was not decided does not count', async () => {
    const { throttle, fail, begin } = start();
    for (let i = 0; i < 300; i++) (await begin(EMAIL, '192.0.2.1')).undecided();
    expect(throttle.size).toBe(0);
    expect(await times(10, () => fail(EMAIL, '192.0.2.1'))).toEqual(Array(10).fill(0));
  });
});
