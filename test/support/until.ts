import { setTimeout as pause } from 'node:timers/promises';

const LOOK_EVERY_MS = 15;
const DEFAULT_LIMIT_MS = 10_000;

/**
 * Looks until what it sees fits; for facts that no signal tells of, such as a row in the database.
 * @throws Error with the last thing seen, after `limitMs`
 */
export async function until<T>(
  what: string,
  look: () => Promise<T> | T,
  fits: (seen: T) => boolean,
  limitMs = DEFAULT_LIMIT_MS,
): Promise<T> {
  const deadline = Date.now() + limitMs;
  for (;;) {
    const seen = await look();
    if (fits(seen)) return seen;
    if (Date.now() > deadline)
      throw new Error(
        `${what}: not so after ${limitMs} ms; last seen ${JSON.stringify(seen)?.slice(0, 2_000)}`,
      );
    await pause(LOOK_EVERY_MS);
  }
}
