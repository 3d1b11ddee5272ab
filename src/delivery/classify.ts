import type { SendFailureCode } from '../platform/http/send-outcome.ts';
import { parseRetryAfter } from './retry-after.ts';
import { backoffMs, type RetryPolicy } from './backoff.ts';

/** What came back, or did not. `aborted` means that we ended the request ourselves while the receiver may already have it. */
export type SendResult =
  | { readonly kind: 'response'; readonly status: number; readonly retryAfter: string | undefined }
  | { readonly kind: 'failure'; readonly code: SendFailureCode; readonly detail: string };

/** What an attempt meant (SPEC D4). */
export type AttemptOutcome =
  | { readonly kind: 'success' }
  | { readonly kind: 'retryable'; readonly retryAfterMs: number | null }
  | { readonly kind: 'rejected' }
  | { readonly kind: 'gone' }
  | { readonly kind: 'redirected' }
  | { readonly kind: 'unknown' };

/** What happens to the delivery next. */
export type Disposition =
  | { readonly kind: 'succeeded' }
  | { readonly kind: 'retry'; readonly delayMs: number }
  | { readonly kind: 'failed'; readonly reason: string; readonly disableEndpoint: boolean }
  | { readonly kind: 'dead'; readonly reason: string };

/**
 * Decides what an attempt meant: 2xx success; 429, 5xx, 408, 425 and every connection failure retryable; 410 gone; other 4xx
 * rejected at once; 3xx a failure that is shown, since redirects are not followed. 408 (Request Timeout) and 425 (Too Early) say
 * "send it again" by their definition in RFC 9110 and RFC 8470, so they count as time-outs.
 */
export function classify(result: SendResult, nowMs: number, retryAfterCapMs: number): AttemptOutcome {
  if (result.kind === 'failure') return classifyFailure(result.code);
  const { status } = result;
  if (status >= 200 && status < 300) return { kind: 'success' };
  if (status === 429 || status === 503) {
    return { kind: 'retryable', retryAfterMs: parseRetryAfter(result.retryAfter, nowMs, retryAfterCapMs) };
  }
  if (status >= 500 || status === 408 || status === 425) return { kind: 'retryable', retryAfterMs: null };
  if (status === 410) return { kind: 'gone' };
  if (status >= 400) return { kind: 'rejected' };
  if (status >= 300) return { kind: 'redirected' };
  // 1xx never reaches us as a final status; a receiver that sends one as such does not speak HTTP.
  return { kind: 'retryable', retryAfterMs: null };
}

function classifyFailure(code: SendFailureCode): AttemptOutcome {
  switch (code) {
    case 'timeout':
    case 'connect_timeout':
    case 'connection_refused':
    case 'connection_reset':
    case 'dns':
    case 'tls':
    case 'protocol':
      return { kind: 'retryable', retryAfterMs: null };
    case 'address_refused':
    case 'request_invalid':
      return { kind: 'rejected' };
    case 'aborted':
      return { kind: 'unknown' };
  }
}

/**
 * The delivery's next state after an attempt. A receiver may ask for a longer pause than the back-off, not for a shorter one: with
 * `Retry-After: 0` all attempts would be used up at once.
 * @param attempt how many attempts this cycle has made, this one included, from 1
 * @param random a number in [0, 1), for the jitter
 */
export function nextDisposition(
  outcome: AttemptOutcome,
  policy: RetryPolicy,
  attempt: number,
  random: number,
): Disposition {
  switch (outcome.kind) {
    case 'success':
      return { kind: 'succeeded' };
    case 'rejected':
      return { kind: 'failed', reason: 'not_retryable', disableEndpoint: false };
    case 'redirected':
      return { kind: 'failed', reason: 'redirect', disableEndpoint: false };
    case 'gone':
      return { kind: 'failed', reason: 'gone', disableEndpoint: true };
    case 'retryable':
    case 'unknown': {
      if (attempt >= policy.maxAttempts) return { kind: 'dead', reason: 'attempts_exhausted' };
      const asked = outcome.kind === 'retryable' ? outcome.retryAfterMs : null;
      return { kind: 'retry', delayMs: Math.max(asked ?? 0, backoffMs(policy, attempt, random)) };
    }
  }
}
