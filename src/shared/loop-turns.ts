import { FairQueue } from './fair-queue.ts';

/** Longest piece of work between two turns, in ms. What takes longer asks for another turn. */
export const TURN_MS = 2;

/**
 * Shares the event loop. Whoever has more to compute than a moment's work waits for a turn before each piece of it;
 * one turn is given in each round of the loop, and owners (tenants) take turns. So all of them together hold the loop
 * for one piece of work, and whoever has little to do passes in between.
 */
export class LoopTurns<Owner> {
  readonly #waiting = new FairQueue<Owner, () => void>();
  #armed = false;

  /** Resolves when it is the owner's turn. */
  next(owner: Owner): Promise<void> {
    return new Promise((resolve) => {
      this.#waiting.push(owner, resolve);
      this.#arm();
    });
  }

  #arm(): void {
    if (this.#armed || this.#waiting.size === 0) return;
    this.#armed = true;
    setImmediate(() => {
      this.#armed = false;
      this.#waiting.shift()?.();
      this.#arm();
    });
  }
}
