import { describe, expect, it } from 'vitest';
import { Passwords } from './passwords.ts';

describe('Passwords', () => {
  it('know a password again, and no other', async () => {
    const passwords = new Passwords();
    const stored = await passwords.hash('correct horse battery');
    expect(await passwords.verify(stored, 'correct horse battery')).toBe(true);
    expect(await passwords.verify(stored, 'correct horse batterY')).toBe(false);
  });

  it('take composed and decomposed letters for the same', async () => {
    const passwords = new Passwords();
    expect(await passwords.verify(await passwords.hash('mot\u00f6rhead'), 'moto\u0308rhead')).toBe(true);
  });

  it('refuse an unknown user after as much work as a wrong password', async () => {
    const passwords = new Passwords();
    const stored = await passwords.hash('correct horse battery');
    const cost = async (hash: string | undefined): Promise<number> => {
      const before = process.cpuUsage();
      expect(await passwords.verify(hash, 'wrong')).toBe(false);
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

  it('compute a bounded number at a time and refuse what would wait too long', async () => {
    const passwords = new Passwords();
    const outcomes = await Promise.allSettled(
      Array.from({ length: 40 }, () => passwords.verify(undefined, 'wrong')),
    );
    const refused = outcomes.filter((outcome) => outcome.status === 'rejected');
    expect(refused).toHaveLength(40 - 2 - 32);
    for (const { reason } of refused) expect(reason).toMatchObject({ code: 'UNAVAILABLE' });
    expect(await passwords.verify(undefined, 'wrong')).toBe(false);
  });
});
