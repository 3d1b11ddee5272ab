/** Something that is paced takes this share of the time. */
const TIME_SHARE = 0.05;

/**
 * Paces what has to be done again and again and may cost much, such as a look at a table whose dead entries cannot be vacuumed: by its own duration.
 * The shorter of the last two counts, so that one that only waited (for a connection, on a machine that stood still) does not put off the next.
 */
export class Pace {
  readonly #shortestMs: number;
  readonly #longestMs: number;
  #lastMs = 0;

  /** @param longestMs the longest pause, whatever it costs: what is to be found must not wait for longer */
  constructor(shortestMs: number, longestMs: number) {
    this.#shortestMs = shortestMs;
    this.#longestMs = longestMs;
  }

  /** Milliseconds from the end of one that took `durationMs` to the next. */
  pauseAfter(durationMs: number): number {
    const costMs = Math.min(durationMs, this.#lastMs);
    this.#lastMs = durationMs;
    return Math.min(Math.max(this.#shortestMs, costMs / TIME_SHARE), this.#longestMs);
  }
}
