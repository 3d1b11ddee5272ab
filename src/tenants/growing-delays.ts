import type { Clock } from '../shared/clock.ts';

/** Failures of one account before its tries are spaced: twice what one address may cause (login-throttle.ts). */
const FREE_FAILURES = 20;
const FIRST_DELAY_MS = 1_000;
const MAX_DELAY_MS = 60_000;
/** So many failures double the delay. */
const DOUBLES_EVERY = 5;
/** After so long one failure is forgotten. Not longer than the longest delay, or the count would grow for ever. */
const FORGET_MS = 60_000;
/** The delay has reached its longest here; more failures would only take longer to forget. */
const MAX_FAILURES = 50;

/** The least time between two tries of an account with so many failures. */
function delayAfter(failures: number): number {
  if (failures < FREE_FAILURES) return 0;
  return Math.min(MAX_DELAY_MS, FIRST_DELAY_MS * 2 ** ((failures - FREE_FAILURES) / DOUBLES_EVERY));
}

interface Account {
  readonly failures: number;
  /** When `failures` was counted. */
  readonly at: number;
  readonly nextAt: number;
}

/**
 * Spaces the tries of an account that has failed often: the more failures, the longer the delay, up to a minute. A try that comes too
 * early does not make it longer, so that somebody who keeps trying shuts nobody out for good.
 */
export class GrowingDelays {
  readonly #clock: Clock;
  readonly #maxAccounts: number;
  /** The account that was tried longest ago is the first. */
  readonly #accounts = new Map<string, Account>();

  /** @param clock a monotonic one */
  constructor(clock: Clock, maxAccounts: number) {
    this.#clock = clock;
    this.#maxAccounts = maxAccounts;
  }

  get size(): number {
    return this.#accounts.size;
  }

  waitMs(key: string): number {
    return Math.max(0, (this.#accounts.get(key)?.nextAt ?? 0) - this.#clock.now());
  }

  /** Counts a try as a failure from its start, so that many at once do not slip through together. */
  begin(key: string): void {
    const now = this.#clock.now();
    const failures = Math.min(MAX_FAILURES, this.#failures(key, now) + 1);
    this.#accounts.delete(key);
    this.#forgetOldest(now);
    this.#accounts.set(key, { failures, at: now, nextAt: now + delayAfter(failures) });
  }

  /** The try was no failure. */
  takeBack(key: string): void {
    const now = this.#clock.now();
    const failures = this.#failures(key, now) - 1;
    if (failures <= 0) this.#accounts.delete(key);
    else this.#accounts.set(key, { failures, at: now, nextAt: now });
  }

  #failures(key: string, now: number): number {
    const account = this.#accounts.get(key);
    return account === undefined ? 0 : Math.max(0, account.failures - (now - account.at) / FORGET_MS);
  }

  #forgetOldest(now: number): void {
    let looked = 0;
    for (const key of this.#accounts.keys()) {
      if (looked++ === 2) break;
      if (this.#failures(key, now) === 0) this.#accounts.delete(key);
    }
    if (this.#accounts.size < this.#maxAccounts) return;
    const oldest = this.#accounts.keys().next();
    if (!oldest.done) this.#accounts.delete(oldest.value);
  }
}
