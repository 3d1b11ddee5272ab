import { describe, expect, it } from 'vitest';
import { FairQueue, QueueFull } from './fair-queue.ts';

/** A queue whose works end when the test says so. */
function start(limits: Partial<ConstructorParameters<typeof FairQueue>[0]> = {}) {
  const queue = new FairQueue({ maxRunning: 1, maxWaiting: 8, maxWaitingPerShare: 4, ...limits });
  const order: string[] = [];
  const running: (() => void)[] = [];
  const refused: string[] = [];
  const add = (share: string, member = 'm'): Promise<void> =>
    queue
      .run({ share, member }, () => {
        order.push(`${share}${member === 'm' ? '' : `/${member}`}`);
        return new Promise<void>((resolve) => running.push(resolve));
      })
      .catch((error: unknown) => {
        if (!(error instanceof QueueFull)) throw error;
        refused.push(share);
      });
  /** Ends works until none is left. */
  const drain = async (all: readonly Promise<void>[]): Promise<void> => {
    let left = true;
    void Promise.all(all).then(() => (left = false));
    while (left) {
      running.shift()?.();
      await new Promise(setImmediate);
    }
  };
  return { order, refused, add, drain };
}

describe('FairQueue', () => {
  it('lets shares take turns', async () => {
    const { order, add, drain } = start();
    await drain([add('a'), add('a'), add('a'), add('a'), add('b'), add('c'), add('b')]);
    expect(order).toEqual(['a', 'a', 'b', 'c', 'a', 'b', 'a']);
  });

  it('lets the members of a share take turns', async () => {
    const { order, add, drain } = start();
    await drain([add('x'), add('a', '1'), add('a', '1'), add('a', '1'), add('a', '2')]);
    expect(order).toEqual(['x', 'a/1', 'a/2', 'a/1', 'a/1']);
  });

  it('refuses what a share brings above its part', async () => {
    const { refused, add, drain } = start();
    await drain(Array.from({ length: 7 }, () => add('a')));
    expect(refused).toEqual(['a', 'a']);
  });

  it('makes room for a share that has less when it is full, and for no other', async () => {
    const { order, refused, add, drain } = start();
    const full = ['a', 'a', 'a', 'a', 'a', 'b', 'b', 'b', 'b'].map((share) => add(share));
    const late = [add('c'), add('c'), add('c'), add('c')];
    await drain([...full, ...late]);
    expect(order).toHaveLength(9);
    expect(order.filter((share) => share === 'c').length).toBeGreaterThanOrEqual(2);
    expect(refused).toHaveLength(4);
  });

  it('goes on after a work that failed', async () => {
    const queue = new FairQueue({ maxRunning: 1, maxWaiting: 1, maxWaitingPerShare: 1 });
    const failing = queue.run({ share: 'a', member: 'm' }, () => Promise.reject(new Error('broken')));
    const next = queue.run({ share: 'a', member: 'm' }, async () => 'done');
    await expect(failing).rejects.toThrow('broken');
    expect(await next).toBe('done');
  });
});
