import { describe, expect, it } from 'vitest';
import type { Turn } from './fair-queue.ts';
import { Passwords } from './passwords.ts';

const ANYBODY: Turn = { share: 'address 192.0.2.1', member: 'a' };

describe('Passwords', () => {
  it('know a password again, and no other', async () => {
    const passwords = new Passwords();
    const stored = await passwords.hash(ANYBODY, 'correct horse battery');
    expect(await passwords.verify(ANYBODY, stored, 'correct horse battery')).toBe(true);
    expect(await passwords.verify(ANYBODY, stored, 'correct horse batterY')).toBe(false);
  });

  it('take composed and decomposed letters for the same', async () => {
    const passwords = new Passwords();
    const stored = await passwords.hash(ANYBODY, 'mot\u00f6rhead');
    expect(await passwords.verify(ANYBODY, stored, 'moto\u0308rhead')).toBe(true);
  });

  it('refuse an unknown user after as much work as a wrong password', async () => {
    const passwords = new Passwords();
    const stored = await passwords.hash(ANYBODY, 'correct horse battery');
    const cost = async (hash: string | undefined): Promise<number> => {
      const before = process.cpuUsage();
      expect(await passwords.verify(ANYBODY, hash, 'wrong')).toBe(false);
      const used = process.cpuUsage(before);
      return used.user + used.system;
    };
    await cost(undefined);
    let [known, unknown] = [0, 0];
    for (let i = 0; i < 5; i++) {
      known += await cost(stored);
      unknown += await cost(undefined);
    }
    // An answer without hashing would be a thousand times cheaper; the bounds leave room for a busy machine.
    expect(unknown / known).toBeGreaterThan(0.3);
    expect(unknown / known).toBeLessThan(3);
  });

  it('compute a bounded number at a time and refuse what one client brings above its share', async () => {
    const passwords = new Passwords();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, () => passwords.verify(ANYBODY, undefined, 'wrong')),
    );
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(refused).toHaveLength(40 - 2 - 16);
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'UNAVAILABLE' });
    expect(await passwords.verify(ANYBODY, undefined, 'wrong')).toBe(false);
  });

  it('let a client wait for a few of a flood from another, not for all of it', async () => {
    const passwords = new Passwords();
    let done = 0;
    const flood = Array.from({ length: 200 }, (_, i) =>
      passwords
        .verify({ share: `address 10.0.0.${i % 4}`, member: `u${i}` }, undefined, 'wrong')
        .then(() => done++)
        .catch(() => undefined),
    );
    const before = await passwords.verify(ANYBODY, undefined, 'wrong').then(() => done);
    await Promise.all(flood);
    expect(done).toBe(2 + 4 * 16 - 1);
    // The queue was full, so the newest of the flood made room.
    // Two that ran already, and one of each of the four that came before it.
    expect(before).toBeLessThanOrEqual(2 + 4 + 1);
  });
});
