import type { SendOutcome } from '../platform/http/send-outcome.ts';
import type { ClaimedWork } from '../transport/port.ts';
import { type AttemptOutcome, classify, type Disposition, nextDisposition } from './classify.ts';
import type { FinishedAttempt, NextState, RecordedAttempt } from './finish.sql.ts';

/** Response headers that are kept with an attempt: what explains an outcome, nothing that could be a credential. */
const KEPT_HEADERS = [
  'content-type',
  'content-encoding',
  'retry-after',
  'location',
  'server',
  'date',
  'x-request-id',
  'via',
];
const MAX_HEADER_LENGTH = 256;

/** What is an attempt: something was sent, or the receiver kept us from sending. */
export type AttemptedSend = Exclude<SendOutcome, { kind: 'deferred' }>;

export interface AttemptTiming {
  readonly startedAtMs: number;
  readonly durationMs: number;
}

export interface AttemptRules {
  readonly retryAfterCapMs: number;
  readonly keepResponseBytes: number;
}

/** An attempt, what it meant, and what follows. Pure: the worker does what it says. */
export interface Judgement {
  readonly outcome: AttemptOutcome;
  readonly disposition: Disposition;
  readonly result: FinishedAttempt;
}

/** Judges the answer to one attempt. @param random in [0, 1), for the back-off's jitter */
export function judgeAttempt(
  work: ClaimedWork,
  sent: AttemptedSend,
  timing: AttemptTiming,
  rules: AttemptRules,
  random: number,
): Judgement {
  const endedAtMs = timing.startedAtMs + timing.durationMs;
  const answer =
    sent.kind === 'response'
      ? { kind: 'response' as const, status: sent.status, retryAfter: sent.headers['retry-after'] }
      : sent;
  const outcome = classify(answer, endedAtMs, rules.retryAfterCapMs);
  const disposition = nextDisposition(
    outcome,
    work.target.retry,
    work.attemptNumber - work.priorAttempts,
    random,
  );
  return {
    outcome,
    disposition,
    result: {
      ...identity(work),
      attempt: record(outcome, sent, timing, rules),
      next: nextState(disposition),
    },
  };
}

/** The delivery ends without an attempt: its endpoint is gone, its event is gone, or its last allowed attempt was one of unknown end. */
export function endWithoutAttempt(
  work: ClaimedWork,
  state: 'dead' | 'cancelled' | 'failed',
  reason: string,
): FinishedAttempt {
  return { ...identity(work), attempt: null, next: { kind: 'ended', state, reason } };
}

/** Nothing was sent and nothing is decided: back to pending after a pause, with its attempt number given back. */
export function deferWithoutAttempt(work: ClaimedWork, delayMs: number): FinishedAttempt {
  return { ...identity(work), attempt: null, next: { kind: 'pending', delayMs, deferral: true } };
}

/** Something was sent, and then we failed ourselves: the receiver may have it. It is tried again after the first back-off. */
export function unknownAttempt(work: ClaimedWork, startedAtMs: number): FinishedAttempt {
  const disposition = nextDisposition(
    { kind: 'unknown' },
    work.target.retry,
    work.attemptNumber - work.priorAttempts,
    1,
  );
  const attempt: RecordedAttempt = {
    startedAtMs,
    durationMs: 0,
    outcome: 'unknown',
    httpStatus: null,
    errorCode: 'internal',
    errorDetail: 'The answer could not be processed on our side.',
    responseHeaders: null,
    responseBody: null,
  };
  return { ...identity(work), attempt, next: nextState(disposition) };
}

function identity(work: ClaimedWork) {
  const { deliveryId, eventId, tenantId, endpointId, leaseToken, attemptNumber } = work;
  return { deliveryId, eventId, tenantId, endpointId, leaseToken, attemptNumber };
}

function nextState(disposition: Disposition): NextState {
  switch (disposition.kind) {
    case 'succeeded':
      return { kind: 'ended', state: 'succeeded', reason: null };
    case 'failed':
      return { kind: 'ended', state: 'failed', reason: disposition.reason };
    case 'dead':
      return { kind: 'ended', state: 'dead', reason: disposition.reason };
    case 'retry':
      return { kind: 'pending', delayMs: disposition.delayMs, deferral: false };
  }
}

function record(
  outcome: AttemptOutcome,
  sent: AttemptedSend,
  timing: AttemptTiming,
  rules: AttemptRules,
): RecordedAttempt {
  if (sent.kind === 'failure') {
    return {
      ...timing,
      outcome: outcome.kind,
      httpStatus: null,
      errorCode: sent.code,
      errorDetail: sent.detail,
      responseHeaders: null,
      responseBody: null,
    };
  }
  return {
    ...timing,
    outcome: outcome.kind,
    httpStatus: sent.status,
    errorCode: outcome.kind === 'success' ? null : `http_${sent.status}`,
    errorDetail: sent.truncated ? 'The response body was cut off at the limit.' : null,
    responseHeaders: keptHeaders(sent.headers),
    responseBody: sent.body.length > 0 ? sent.body.subarray(0, rules.keepResponseBytes) : null,
  };
}

function keptHeaders(headers: Readonly<Record<string, string>>): Record<string, string> | null {
  const kept: Record<string, string> = {};
  for (const name of KEPT_HEADERS) {
    const value = headers[name];
    if (value !== undefined) kept[name] = value.slice(0, MAX_HEADER_LENGTH);
  }
  return kept;
}
