/** Each turn lasts about a second: a machine that others share changes its speed by half within a few. */
const TURNS = 6;

/**
 * Runs the yardstick and what is measured in turns, so that both meet the same machine: their ratio is what counts.
 * @param total how many of each, over all turns
 * @returns the time of each, over all turns
 */
export async function inTurns(
  total: number,
  run: Readonly<Record<'yardstick' | 'measured', (count: number) => Promise<unknown>>>,
): Promise<{ yardstickMs: number; measuredMs: number }> {
  const ms = { yardstick: 0, measured: 0 };
  for (let turn = 0; turn < TURNS; turn++) {
    const count = Math.floor((total * (turn + 1)) / TURNS) - Math.floor((total * turn) / TURNS);
    for (const what of ['yardstick', 'measured'] as const) {
      const started = performance.now();
      await run[what](count);
      ms[what] += performance.now() - started;
    }
  }
  return { yardstickMs: ms.yardstick, measuredMs: ms.measured };
}
