import { monitorEventLoopDelay } from 'node:perf_hooks';
import { afterEach, describe, expect, it } from 'vitest';
import { FilterPool, type FilterPoolOptions } from './index.ts';

const event = { id: 'x', type: 'a.b' };
let pool: FilterPool | undefined;

function open(options: Partial<FilterPoolOptions> = {}): FilterPool {
  pool = new FilterPool({
    threads: 2,
    deadlineMs: 100,
    cpuMsPerSecond: 10_000,
    maxWaitMs: 5_000,
    ...options,
  });
  return pool;
}
afterEach(async () => {
  await pool?.close();
  pool = undefined;
});

const work = (payload: unknown, ...sources: string[]) => ({
  event,
  payload: JSON.stringify(payload),
  sources,
});

/** Filters that take seconds on payloads of 100 KB. */
const DEAR = [
  {
    name: 'membership in a list for each element of another',
    filter: 'payload.l.all(x, !(x in payload.m))',
    payload: { l: Array(15_000).fill(1), m: Array(40_000).fill(2) },
  },
  {
    name: 'a search for a long text for each element',
    filter: 'payload.l.all(x, !payload.s.contains(payload.t))',
    payload: {
      l: Array(20).fill(1),
      s: 'a'.repeat(60_000),
      t: `${'a'.repeat(10_000)}b${'a'.repeat(10_000)}`,
    },
  },
  {
    name: 'a list that grows by each element',
    filter: 'payload.l.map(x, payload.m + [x]).size() > 0',
    payload: { l: Array(20_000).fill(1), m: Array(20_000).fill(2) },
  },
];

describe('filters in worker threads', () => {
  it('are judged in the order of their sources', async () => {
    const verdicts = await open().judge(
      'a',
      work({ l: [1, 2] }, 'payload.l.exists(x, x == 2)', 'payload.l.all(x, x == 2)', 'payload.none', '1 +'),
    );
    expect(verdicts.slice(0, 2)).toEqual([true, false]);
    expect(verdicts.slice(2)).toEqual([
      { error: expect.stringMatching(/none/) as string },
      { error: expect.stringMatching(/\S/) as string },
    ]);
  });

  it.each(DEAR)('end at their deadline and hold nobody: $name', async ({ filter, payload }) => {
    const running = open();
    // The threads are started, and the other owner is known.
    await running.judge('other', work({}, 'true'));
    const delay = monitorEventLoopDelay({ resolution: 1 });
    delay.enable();
    const dear = running.judge('hostile', work(payload, 'true', filter, 'true'));
    const waits: number[] = [];
    for (let i = 0; i < 20; i++) {
      const started = performance.now();
      expect(await running.judge('other', work({ l: [1] }, 'payload.l.exists(x, x == 1)'))).toEqual([true]);
      waits.push(performance.now() - started);
    }
    const verdicts = await dear;
    delay.disable();
    expect(verdicts[0]).toBe(true);
    for (const verdict of verdicts.slice(1))
      expect(verdict).toMatchObject({ error: expect.any(String) as string });
    expect(Math.max(...waits)).toBeLessThan(500);
    expect(delay.max / 1e6).toBeLessThan(50);
    // Whatever was ended, the next event of the same owner is judged.
    expect(await running.judge('hostile', work({}, 'true'))).toEqual([true]);
  });

  it('use up what their owner may use, and nobody else is short of it', async () => {
    const running = open({ cpuMsPerSecond: 25, maxWaitMs: 400 });
    const { filter, payload } = DEAR[0]!;
    const verdicts = await Promise.all(
      Array.from({ length: 12 }, () => running.judge('hostile', work(payload, filter))),
    );
    const reasons = new Set(verdicts.map(([verdict]) => (verdict as { error: string }).error));
    expect([...reasons].sort()).toEqual([
      'no time for the filters of this event within 400 ms',
      'the filters of this event took longer than 100 ms',
    ]);
    expect(await running.judge('other', work({}, 'true'))).toEqual([true]);
  });

  it('that wait or run fail when the process stops', async () => {
    const running = open({ threads: 1 });
    const { filter, payload } = DEAR[0]!;
    const judged = Array.from({ length: 3 }, () => running.judge('a', work(payload, filter)));
    await running.close();
    for (const verdicts of await Promise.all(judged))
      expect(verdicts).toEqual([{ error: expect.any(String) as string }]);
  });
});
