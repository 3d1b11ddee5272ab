import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { backoffMs } from './backoff.ts';
import { classify, nextDisposition, type AttemptOutcome } from './classify.ts';
import { parseRetryAfter } from './retry-after.ts';

const policy = { maxAttempts: 5, baseMs: 5_000, factor: 2, capMs: 300_000 };
const unit = fc.double({ min: 0, max: 0.999999, noNaN: true });
const status = (code: number, retryAfter?: string) =>
  classify({ kind: 'response', status: code, retryAfter }, 0, 60_000);

describe('classify', () => {
  it.each([
    [200, 'success'],
    [204, 'success'],
    [299, 'success'],
    [301, 'redirected'],
    [307, 'redirected'],
    [304, 'redirected'],
    [400, 'rejected'],
    [401, 'rejected'],
    [404, 'rejected'],
    [408, 'retryable'],
    [410, 'gone'],
    [422, 'rejected'],
    [425, 'retryable'],
    [429, 'retryable'],
    [500, 'retryable'],
    [502, 'retryable'],
    [503, 'retryable'],
    [599, 'retryable'],
  ])('status %i is %s', (code, kind) => {
    expect(status(code).kind).toBe(kind);
  });

  it('gives every status from 100 to 999 exactly one meaning, and only 2xx is success', () => {
    fc.assert(
      fc.property(fc.integer({ min: 100, max: 999 }), (code) => {
        expect(status(code).kind === 'success').toBe(code >= 200 && code < 300);
      }),
    );
  });

  it.each([
    'timeout',
    'connect_timeout',
    'connection_refused',
    'connection_reset',
    'dns',
    'tls',
    'protocol',
  ] as const)('retries after %s', (code) => {
    expect(classify({ kind: 'failure', code, detail: '' }, 0, 0).kind).toBe('retryable');
  });

  it('does not claim to know what happened to a request that we ended ourselves', () => {
    expect(classify({ kind: 'failure', code: 'aborted', detail: '' }, 0, 0).kind).toBe('unknown');
  });

  it('honours Retry-After of 429 and 503 only', () => {
    expect(status(429, '7')).toEqual({ kind: 'retryable', retryAfterMs: 7_000 });
    expect(status(503, '7')).toEqual({ kind: 'retryable', retryAfterMs: 7_000 });
    expect(status(500, '7')).toEqual({ kind: 'retryable', retryAfterMs: null });
  });
});

describe('nextDisposition', () => {
  const outcomes: fc.Arbitrary<AttemptOutcome> = fc.oneof(
    fc.constantFrom<AttemptOutcome>(
      { kind: 'success' },
      { kind: 'rejected' },
      { kind: 'gone' },
      { kind: 'redirected' },
      { kind: 'unknown' },
    ),
    fc.record({ kind: fc.constant('retryable' as const), retryAfterMs: fc.option(fc.nat(60_000)) }),
  );

  it('ends every delivery after at most maxAttempts, whatever happens', () => {
    fc.assert(
      fc.property(fc.array(outcomes, { minLength: 5, maxLength: 5 }), unit, (sequence, random) => {
        let attempt = 0;
        for (const outcome of sequence) {
          attempt += 1;
          if (nextDisposition(outcome, policy, attempt, random).kind !== 'retry') return true;
        }
        return false;
      }),
    );
  });

  it('succeeds on success only, and disables the endpoint on 410 only', () => {
    fc.assert(
      fc.property(outcomes, fc.integer({ min: 1, max: 9 }), unit, (outcome, attempt, random) => {
        const next = nextDisposition(outcome, policy, attempt, random);
        expect(next.kind === 'succeeded').toBe(outcome.kind === 'success');
        expect(next.kind === 'failed' && next.disableEndpoint).toBe(outcome.kind === 'gone');
      }),
    );
  });

  it('waits as long as the receiver asked, and never shorter than the back-off', () => {
    fc.assert(
      fc.property(
        fc.nat(1_000_000),
        fc.integer({ min: 1, max: 4 }),
        unit,
        (retryAfterMs, attempt, random) => {
          const next = nextDisposition({ kind: 'retryable', retryAfterMs }, policy, attempt, random);
          const own = backoffMs(policy, attempt, random);
          expect(next).toEqual({ kind: 'retry', delayMs: Math.max(retryAfterMs, own) });
        },
      ),
    );
  });
});

describe('backoffMs', () => {
  it('stays between a tenth of the bound and the bound, and never above the cap', () => {
    fc.assert(
      fc.property(fc.integer({ min: 1, max: 10_000 }), unit, (attempt, random) => {
        const bound = Math.min(policy.capMs, policy.baseMs * policy.factor ** (attempt - 1));
        const ms = backoffMs(policy, attempt, random);
        expect(ms).toBeGreaterThanOrEqual(Math.floor(bound * 0.1));
        expect(ms).toBeLessThanOrEqual(bound);
      }),
    );
  });
});

describe('parseRetryAfter', () => {
  const now = Date.parse('2026-01-01T00:00:00Z');
  it.each([
    ['0', 0],
    ['120', 120_000],
    [' 5 ', 5_000],
    ['999999999999', 3_600_000],
    ['Thu, 01 Jan 2026 00:00:30 GMT', 30_000],
    ['Wed, 31 Dec 2025 23:59:00 GMT', 0],
    ['Fri, 01 Jan 2100 00:00:00 GMT', 3_600_000],
  ])('%j is %i ms', (text, ms) => {
    expect(parseRetryAfter(text, now, 3_600_000)).toBe(ms);
  });

  it.each([
    undefined,
    '',
    'inf',
    'Infinity',
    'NaN',
    '-1',
    '1.5',
    '1e3',
    '0x10',
    '5s',
    'tomorrow',
    '2026-01-01',
    'Thu, 99 Jan 2026 00:00:30 GMT',
    '9'.repeat(400),
  ])('ignores %j', (text) => {
    expect(parseRetryAfter(text, now, 3_600_000)).toBeNull();
  });

  it('never throws, and answers null or something within the cap, for any text', () => {
    fc.assert(
      fc.property(fc.string(), (text) => {
        const ms = parseRetryAfter(text, now, 1_000);
        expect(ms === null || (ms >= 0 && ms <= 1_000)).toBe(true);
      }),
    );
  });
});
