import { clientOrigin } from '../platform/http/client-address.ts';
import type { Clock } from '../shared/clock.ts';
import { loginThrottled } from './tenants.errors.ts';

const MAX_FAILURES = 10;
const WINDOW_MS = 300_000;
const MAX_ENTRIES = 10_000;

/**
 * Counts failed logins for one e-mail from one address and refuses more than ten in five minutes. It lives in this process:
 * with several processes the limit is that many times larger, still far below what guessing a password needs. A try counts
 * from its start, so that many at once do not slip through together.
 */
export class LoginThrottle {
  readonly #clock: Clock;
  readonly #windows = new Map<string, { failures: number; readonly endsAt: number }>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** @throws LOGIN_THROTTLED with the seconds until the window ends */
  begin(email: string, address: string): void {
    const key = keyOf(email, address);
    const now = this.#clock.now();
    const window = this.#windows.get(key);
    if (window === undefined || window.endsAt <= now) {
      this.#windows.delete(key);
      this.#makeRoom();
      this.#windows.set(key, { failures: 1, endsAt: now + WINDOW_MS });
    } else if (window.failures >= MAX_FAILURES) {
      throw loginThrottled({ retryAfterSeconds: Math.ceil((window.endsAt - now) / 1000) });
    } else window.failures++;
  }

  /** The password was right: earlier failures are forgotten. */
  succeeded(email: string, address: string): void {
    this.#windows.delete(keyOf(email, address));
  }

  /** The try ended without an answer about the password (the database was away): it does not count. */
  undecided(email: string, address: string): void {
    const window = this.#windows.get(keyOf(email, address));
    if (window && window.failures > 0) window.failures--;
  }

  /** Windows are of one length, so the first in the map is the first to end. */
  #makeRoom(): void {
    if (this.#windows.size < MAX_ENTRIES) return;
    const oldest = this.#windows.keys().next();
    if (!oldest.done) this.#windows.delete(oldest.value);
  }
}

function keyOf(email: string, address: string): string {
  return `${email} ${clientOrigin(address)}`;
}
