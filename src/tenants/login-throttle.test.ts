import { describe, expect, it } from 'vitest';
import { LoginThrottle } from './login-throttle.ts';

function exhausted(address: string) {
  const clock = { ms: 0, now: () => clock.ms };
  const throttle = new LoginThrottle(clock);
  for (let i = 0; i < 10; i++) throttle.begin('a@b.c', address);
  return { clock, throttle };
}

describe('LoginThrottle', () => {
  it('refuses the eleventh try of a window, and opens with the next window', () => {
    const { clock, throttle } = exhausted('192.0.2.1');
    clock.ms = 299_999;
    expect(() => throttle.begin('a@b.c', '192.0.2.1')).toThrow(/Too many/);
    clock.ms = 300_000;
    expect(() => throttle.begin('a@b.c', '192.0.2.1')).not.toThrow();
  });

  it('counts each e-mail and each address for itself', () => {
    const { throttle } = exhausted('192.0.2.1');
    expect(() => throttle.begin('x@b.c', '192.0.2.1')).not.toThrow();
    expect(() => throttle.begin('a@b.c', '192.0.2.2')).not.toThrow();
  });

  it('takes an IPv6 /64 for one address, and a mapped IPv4 address for that address', () => {
    const six = exhausted('2001:db8:1:2::1').throttle;
    expect(() => six.begin('a@b.c', '2001:db8:1:2:ffff::9')).toThrow(/Too many/);
    expect(() => six.begin('a@b.c', '2001:db8:1:3::1')).not.toThrow();
    const four = exhausted('192.0.2.1').throttle;
    expect(() => four.begin('a@b.c', '::ffff:192.0.2.1')).toThrow(/Too many/);
    expect(() => four.begin('a@b.c', '::ffff:192.0.2.2')).not.toThrow();
  });

  it('forgets failures after a success, and tries that were not decided', () => {
    const { throttle } = exhausted('192.0.2.1');
    throttle.undecided('a@b.c', '192.0.2.1');
    expect(() => throttle.begin('a@b.c', '192.0.2.1')).not.toThrow();
    expect(() => throttle.begin('a@b.c', '192.0.2.1')).toThrow(/Too many/);
    throttle.succeeded('a@b.c', '192.0.2.1');
    for (let i = 0; i < 10; i++) throttle.begin('a@b.c', '192.0.2.1');
  });

  it('stays bounded: over ten thousand windows the oldest is forgotten', () => {
    const { throttle } = exhausted('192.0.2.1');
    for (let i = 0; i < 10_000; i++) throttle.begin(`u${i}@b.c`, '192.0.2.1');
    expect(() => throttle.begin('a@b.c', '192.0.2.1')).not.toThrow();
  });
});
