import { clientOrigin } from '../platform/http/client-address.ts';
import type { Clock } from '../shared/clock.ts';
import { Buckets } from './buckets.ts';
import { tokenThrottled } from './tenants.errors.ts';

const PER_ADDRESS = { capacity: 30, refillMs: 10_000 };
/** An address that is pushed out is asked about again: our tokens cannot be guessed, this only bounds the work. */
const MAX_ADDRESSES = 8_192;

/** Bounds the one-time and refresh tokens that were not valid, by address. It lives in this process. */
export class TokenTries {
  readonly #addresses: Buckets;

  /** @param clock a monotonic one */
  constructor(clock: Clock) {
    this.#addresses = new Buckets(clock, PER_ADDRESS, MAX_ADDRESSES);
  }

  /** @throws TOKEN_THROTTLED with the seconds to wait */
  check(address: string): void {
    const waitMs = this.#addresses.waitMs(clientOrigin(address));
    if (waitMs > 0) throw tokenThrottled({ retryAfterSeconds: Math.ceil(waitMs / 1000) });
  }

  refused(address: string): void {
    this.#addresses.take(clientOrigin(address));
  }
}
