import type { SimulatedReceiver } from '../../src/simulator/index.ts';

const FOREVER_MS = 2 ** 31 - 1;

/** What a receiver sees of all workers together, for as long as its simulator runs: requests at a time, and when they came. */
export class Gauge {
  #requests = 0;
  #inFlight = 0;
  #most = 0;
  #arrivals: number[] = [];

  constructor(receiver: SimulatedReceiver) {
    const look = ({ requests, answers }: ReturnType<SimulatedReceiver['summary']>): boolean => {
      const now = performance.now();
      for (; this.#requests < requests; this.#requests += 1) this.#arrivals.push(now);
      this.#inFlight = requests - Object.values(answers).reduce((sum, count) => sum + count, 0);
      this.#most = Math.max(this.#most, this.#inFlight);
      return false;
    };
    // It looks after each arrival and each answer, and ends when the simulator closes.
    receiver.until(look, FOREVER_MS).catch(() => undefined);
  }

  /** Forgets what was before. */
  begin(): void {
    this.#most = this.#inFlight;
    this.#arrivals = [];
  }

  /** Most requests at a time. */
  get most(): number {
    return this.#most;
  }

  /** Most requests that came within so many milliseconds. */
  mostWithin(windowMs: number): number {
    let first = 0;
    return this.#arrivals.reduce((most, at, last) => {
      while (at - this.#arrivals[first]! >= windowMs) first += 1;
      return Math.max(most, last - first + 1);
    }, 0);
  }
}
