import { hash } from 'node:crypto';
import { clientOrigin } from '../platform/http/client-address.ts';
import type { Clock } from '../shared/clock.ts';
import { Buckets } from './buckets.ts';
import { FairQueue, QueueFull } from './fair-queue.ts';
import { GrowingDelays } from './growing-delays.ts';
import { loginThrottled } from './tenants.errors.ts';

/**
 * Failed tries by what they are counted for. One address causes ten failures of an account, and then one in two minutes: less than the
 * account forgets (one a minute), so that a single address never slows down the others (growing-delays.ts).
 */
const PER_ACCOUNT_AND_ADDRESS = { capacity: 10, refillMs: 120_000 };
const PER_ADDRESS = { capacity: 30, refillMs: 10_000 };
const IN_TOTAL = { capacity: 200, refillMs: 100 };
/** For an address that the account has logged in from: not touched by what others try. */
const KNOWN_ADDRESS = { capacity: 5, refillMs: 30_000 };
/** How often an address may make us look up in vain whether it is known. */
const LOOK_UPS = { capacity: 20, refillMs: 5_000 };

/**
 * Only tries that are let through make entries: 200 and then ten a second, whoever sends them. The longest that an entry counts for is
 * 50 minutes (an account), 20 minutes (account and address), 5 minutes (address). So no more than 30,200, 12,200 and 3,200 can be in
 * use, and nobody can push out what still counts.
 */
const MAX_ACCOUNTS = 32_768;
const MAX_PAIRS = 16_384;
const MAX_ADDRESSES = 8_192;

/** A try that was let through. It counts as a failure until one of these is called. */
export interface LoginTry {
  /** The password was right and the session was opened. */
  succeeded(): void;
  /** There was no answer about the password (the database was away). */
  undecided(): void;
}

/**
 * Slows down guessing of passwords: by account, by address, by both, and in total. What is unknown is counted like what is known. It
 * lives in this process: with several processes each of them allows as much.
 */
export class LoginThrottle {
  readonly #accounts: GrowingDelays;
  readonly #pairs: Buckets;
  readonly #addresses: Buckets;
  readonly #total: Buckets;
  readonly #known: Buckets;
  readonly #lookUps: Buckets;
  readonly #lookUpQueue = new FairQueue({ maxRunning: 2, maxWaiting: 64, maxWaitingPerShare: 4 });

  /** @param clock a monotonic one */
  constructor(clock: Clock) {
    this.#accounts = new GrowingDelays(clock, MAX_ACCOUNTS);
    this.#pairs = new Buckets(clock, PER_ACCOUNT_AND_ADDRESS, MAX_PAIRS);
    this.#addresses = new Buckets(clock, PER_ADDRESS, MAX_ADDRESSES);
    this.#total = new Buckets(clock, IN_TOTAL, 1);
    this.#known = new Buckets(clock, KNOWN_ADDRESS, MAX_PAIRS);
    this.#lookUps = new Buckets(clock, LOOK_UPS, MAX_ADDRESSES);
  }

  /** How many entries it keeps. */
  get size(): number {
    return (
      this.#accounts.size + this.#pairs.size + this.#addresses.size + this.#known.size + this.#lookUps.size
    );
  }

  /**
   * @param isKnown whether the account has logged in from this address before; asked only when the try would be refused
   * @throws LOGIN_THROTTLED with the seconds to wait
   */
  async begin(email: string, address: string, isKnown: () => Promise<boolean>): Promise<LoginTry> {
    const keys = keysOf(email, address);
    const waitMs = this.#waitMs(keys);
    if (waitMs === 0) return this.#admit(keys);
    const knownWaitMs = await this.#knownWaitMs(keys, isKnown);
    // Asked again, because others may have been let through during the look-up.
    if (knownWaitMs === 0 && this.#known.waitMs(keys.pair) === 0) return this.#admitKnown(keys);
    const retryAfterSeconds = Math.ceil(Math.min(waitMs, knownWaitMs ?? waitMs) / 1000);
    throw loginThrottled({ retryAfterSeconds });
  }

  #waitMs({ account, address, pair }: Keys): number {
    return Math.max(
      this.#accounts.waitMs(account),
      this.#pairs.waitMs(pair),
      this.#addresses.waitMs(address),
      this.#total.waitMs(''),
    );
  }

  #admit({ account, address, pair }: Keys): LoginTry {
    this.#accounts.begin(account);
    this.#pairs.take(pair);
    this.#addresses.take(address);
    this.#total.take('');
    const takeBack = (): void => {
      this.#accounts.takeBack(account);
      this.#addresses.giveBack(address);
      this.#total.giveBack('');
    };
    return {
      succeeded: () => {
        takeBack();
        this.#pairs.forget(pair);
      },
      undecided: () => {
        takeBack();
        this.#pairs.giveBack(pair);
      },
    };
  }

  #admitKnown({ pair }: Keys): LoginTry {
    this.#known.take(pair);
    return {
      succeeded: () => {
        this.#known.giveBack(pair);
        this.#pairs.forget(pair);
      },
      undecided: () => this.#known.giveBack(pair),
    };
  }

  /** Undefined when the address is not known, or too many ask. */
  async #knownWaitMs(
    { account, address, pair }: Keys,
    isKnown: () => Promise<boolean>,
  ): Promise<number | undefined> {
    if (this.#lookUps.waitMs(address) > 0) return undefined;
    this.#lookUps.take(address);
    try {
      const known = await this.#lookUpQueue.run({ share: address, member: account }, isKnown);
      if (!known) return undefined;
      this.#lookUps.giveBack(address);
      return this.#known.waitMs(pair);
    } catch (error) {
      if (error instanceof QueueFull) return undefined;
      throw error;
    }
  }
}

interface Keys {
  readonly account: string;
  readonly address: string;
  readonly pair: string;
}

/** Of one length, however long an e-mail address is. */
function keysOf(email: string, address: string): Keys {
  const account = hash('sha256', email, 'base64url').slice(0, 22);
  const origin = clientOrigin(address);
  return { account, address: origin, pair: `${account} ${origin}` };
}
