import { expect, it } from 'vitest';
import { Pace } from './pace.ts';

it('keeps to a twentieth of the time, between the shortest pause and the longest', () => {
  const pace = new Pace(1_000, 30_000);
  const pauses = [10, 10, 200, 200, 5_000, 5_000, 10].map((durationMs) => pace.pauseAfter(durationMs));
  expect(pauses).toEqual([1_000, 1_000, 1_000, 4_000, 4_000, 30_000, 1_000]);
});

it('does not let one slow turn put off the next', () => {
  const pace = new Pace(1_000, 30_000);
  expect([5_000, 10, 5_000, 10].map((durationMs) => pace.pauseAfter(durationMs))).toEqual(
    Array(4).fill(1_000),
  );
});
