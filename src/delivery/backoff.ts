/** When and how often a delivery is tried again. */
export interface RetryPolicy {
  readonly maxAttempts: number;
  readonly baseMs: number;
  readonly factor: number;
  readonly capMs: number;
}

/**
 * Pause before the next attempt: exponential with "full jitter", a uniform draw between 0 and the bound, which spreads a
 * crowd of retries best (M. Brooker, "Exponential Backoff And Jitter", AWS Architecture Blog, 2015). A tenth of the bound is the
 * least, so that a draw near 0 does not become a busy loop.
 * @param attempt how many attempts were made in this cycle, from 1
 * @param random a number in [0, 1)
 * @returns milliseconds, at most `capMs`
 */
export function backoffMs(policy: RetryPolicy, attempt: number, random: number): number {
  const bound = Math.min(policy.capMs, policy.baseMs * policy.factor ** (Math.max(1, attempt) - 1));
  return Math.round(bound * (0.1 + 0.9 * random));
}
