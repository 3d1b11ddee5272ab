import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { Lifecycle } from './lifecycle.ts';

const never = (): Promise<void> => new Promise(() => undefined);

let errors: { part: string; message: string }[];
let lifecycle: Lifecycle;

beforeEach(() => {
  vi.useFakeTimers();
  errors = [];
  lifecycle = new Lifecycle((error, part) => errors.push({ part, message: (error as Error).message }));
});
afterEach(() => {
  expect(vi.getTimerCount()).toBe(0);
  vi.useRealTimers();
});

describe('stopping', () => {
  it('goes in reverse order, and parts that were added together stop side by side', async () => {
    const seen: string[] = [];
    const part = (name: string) => ({
      name,
      stop: async () => {
        seen.push(`${name} begins`);
        await Promise.resolve();
        seen.push(`${name} ends`);
      },
    });
    lifecycle.add(part('database'));
    lifecycle.add(part('worker'), part('http'));
    await lifecycle.start();
    await lifecycle.stop(new AbortController().signal);
    expect(seen).toEqual([
      'worker begins',
      'http begins',
      'worker ends',
      'http ends',
      'database begins',
      'database ends',
    ]);
    expect(errors).toEqual([]);
  });

  it('leaves a part that hangs behind two seconds after the deadline, says which, and stops the others', async () => {
    const stopped = vi.fn();
    lifecycle.add({ name: 'first', stop: stopped });
    lifecycle.add({ name: 'hangs', stop: never });
    lifecycle.add({ name: 'hangs longer', stop: never, graceMs: 6_000 });
    await lifecycle.start();
    const deadline = new AbortController();
    const done = lifecycle.stop(deadline.signal);
    await vi.advanceTimersByTimeAsync(60_000);
    expect(errors).toEqual([]);
    deadline.abort();
    await vi.advanceTimersByTimeAsync(5_999);
    expect(errors).toEqual([]);
    await vi.advanceTimersByTimeAsync(1);
    expect(errors.map(({ part }) => part)).toEqual(['hangs longer']);
    await vi.advanceTimersByTimeAsync(2_000);
    await done;
    expect(errors.map(({ part }) => part)).toEqual(['hangs longer', 'hangs']);
    expect(stopped).toHaveBeenCalledOnce();
  });

  it('goes on when a part fails, also after a start that failed', async () => {
    const stopped = vi.fn();
    lifecycle.add({ name: 'first', stop: stopped });
    lifecycle.add({ name: 'bad', stop: () => Promise.reject(new Error('no')) });
    lifecycle.add({ name: 'taken', start: () => Promise.reject(new Error('port')) });
    await expect(lifecycle.start()).rejects.toThrow('taken could not be started');
    expect(errors).toEqual([{ part: 'bad', message: 'no' }]);
    expect(stopped).toHaveBeenCalledOnce();
  });
});
