import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { FairSlots } from './fair-slots.ts';

interface Job {
  readonly share: string;
}

function slots(limit: number, maxWaiting: number) {
  const started: Job[] = [];
  const fair = new FairSlots<Job>(limit, maxWaiting, (job) => void started.push(job));
  const enter = (share: string) => fair.enter({ share }, share);
  return { fair, started, enter };
}

describe('FairSlots', () => {
  it('gives one share half, and the next ones their part of what is free', () => {
    const { enter, started } = slots(8, 100);
    const count = (share: string) => started.filter((job) => job.share === share).length;
    for (let i = 0; i < 20; i += 1) enter('a');
    for (let i = 0; i < 20; i += 1) enter('b');
    for (let i = 0; i < 20; i += 1) enter('c');
    expect([count('a'), count('b'), count('c')]).toEqual([4, 2, 1]);
    expect(enter('d')).toBe('started');
  });

  it('gives what becomes free in turns', () => {
    const { fair, enter, started } = slots(2, 100);
    enter('x');
    for (const share of ['a', 'a', 'a', 'b', 'b', 'c']) enter(share);
    expect(started.map(({ share }) => share)).toEqual(['x', 'a']);
    const order: string[] = [];
    fair.release('x');
    for (let i = 1; i < started.length; i += 1) {
      order.push(started[i]!.share);
      fair.release(started[i]!.share);
    }
    expect(order).toEqual(['a', 'b', 'a', 'c', 'b', 'a']);
  });

  it('refuses a share that has its part of the places to wait, and no other', () => {
    const { fair, enter } = slots(2, 8);
    enter('a');
    const results = Array.from({ length: 10 }, () => enter('a'));
    expect(results.filter((result) => result === 'waiting')).toHaveLength(4);
    expect(fair.waiting).toBe(4);
    enter('b');
    expect(enter('b')).toBe('waiting');
  });

  it('forgets what is withdrawn', () => {
    const { fair, enter, started } = slots(2, 8);
    enter('a');
    const job = { share: 'a' };
    fair.enter(job, 'a');
    fair.withdraw(job, 'a');
    fair.withdraw(job, 'a');
    expect(fair.waiting).toBe(0);
    fair.release('a');
    expect(started).toHaveLength(1);
  });

  it('never exceeds its limits, and leaves nobody waiting who has room', () => {
    const steps = fc.array(fc.tuple(fc.constantFrom('a', 'b', 'c', 'd'), fc.boolean()), { maxLength: 200 });
    fc.assert(
      fc.property(steps, fc.integer({ min: 1, max: 6 }), (all, limit) => {
        const { fair, started, enter } = slots(limit, 10);
        let released = 0;
        for (const [share, isRelease] of all) {
          if (!isRelease) enter(share);
          else if (released < started.length) fair.release(started[released++]!.share);
          expect(started.length - released).toBeLessThanOrEqual(limit);
          expect(fair.waiting).toBeLessThanOrEqual(10);
        }
        while (released < started.length) fair.release(started[released++]!.share);
        expect(fair.waiting).toBe(0);
      }),
    );
  });
});
