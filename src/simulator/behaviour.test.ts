import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import {
  type Behaviour,
  SettingsError,
  HEALTHY,
  SETTINGS,
  behaviourEntries,
  readBehaviour,
} from './behaviour.ts';

const read = (query: string): Behaviour => readBehaviour(new URLSearchParams(query), HEALTHY);

function problemsOf(attempt: () => unknown): SettingsError['problems'] {
  try {
    attempt();
  } catch (error) {
    if (error instanceof SettingsError) return error.problems;
    throw error;
  }
  return [];
}

describe('readBehaviour', () => {
  it('is healthy when nothing is set', () => {
    expect(read('')).toEqual(HEALTHY);
    expect(HEALTHY).toMatchObject({ status: [200], latencyMs: 0, flaky: 0, drop: 0, hang: false });
  });

  it.each([
    ['status=500', { status: [500] }],
    ['status=200,500,%20404', { status: [200, 500, 404] }],
    ['loop=true&per=delivery', { loop: true, per: 'delivery' }],
    ['latencyMs=50&jitterMs=10&dripMs=5', { latencyMs: 50, jitterMs: 10, dripMs: 5 }],
    ['flaky=0.3&drop=true&seed=x', { flaky: 0.3, drop: 1, seed: 'x' }],
    ['drop=false&flaky=.5', { drop: 0, flaky: 0.5 }],
    ['bodyBytes=1000000&encoding=br', { bodyBytes: 1_000_000, encoding: 'br' }],
    [
      'redirect=http://169.254.169.254/&retryAfter=inf',
      { redirect: 'http://169.254.169.254/', retryAfter: 'inf' },
    ],
    [
      'body={"a":"{{count}}"}&contentType=text/plain',
      { body: '{"a":"{{count}}"}', contentType: 'text/plain' },
    ],
    ['reset=true&hang=true&endless=true&bomb=true', { reset: true, hang: true, endless: true, bomb: true }],
  ])('reads %s', (query, expected) => {
    expect(read(query)).toEqual({ ...HEALTHY, ...expected });
  });

  it.each([
    ['status=', 'status'],
    ['status=199', 'status'],
    ['status=600', 'status'],
    ['status=200,x', 'status'],
    [`status=${'200,'.repeat(1_000)}200`, 'status'],
    ['loop=yes', 'loop'],
    ['per=request', 'per'],
    ['latencyMs=-1', 'latencyMs'],
    ['latencyMs=1.5', 'latencyMs'],
    ['latencyMs=99999999', 'latencyMs'],
    ['flaky=1.1', 'flaky'],
    ['flaky=NaN', 'flaky'],
    ['flaky=', 'flaky'],
    ['drop=often', 'drop'],
    ['bodyBytes=1e9', 'bodyBytes'],
    ['encoding=zstd', 'encoding'],
    ['retryAfter=a%0d%0ab', 'retryAfter'],
    ['redirect=http://ü/%E2%82%AC', 'redirect'],
    ['contentType=%00', 'contentType'],
    [`body=${'x'.repeat(65_537)}`, 'body'],
    ['Status=200', 'Status'],
    ['__proto__=1', '__proto__'],
    ['status=200&status=500', 'status'],
  ])('refuses %s and names the field, the reason and what to do', (query, field) => {
    const problems = problemsOf(() => read(query));
    expect(problems).toEqual([
      { field, reason: expect.any(String) as string, fix: expect.stringMatching(/\.$/) as string },
    ]);
  });

  it('names all problems at once', () => {
    const problems = problemsOf(() => read('status=1&flaky=2&nothing=3'));
    expect(problems.map((p) => p.field)).toEqual(['status', 'flaky', 'nothing']);
  });

  it('either reads or names problems, whatever comes in', () => {
    const name = fc.oneof(fc.constantFrom(...Object.keys(SETTINGS)), fc.string());
    fc.assert(
      fc.property(fc.array(fc.tuple(name, fc.string())), (entries) => {
        if (problemsOf(() => readBehaviour(entries, HEALTHY)).length === 0)
          expect(Object.keys(readBehaviour(entries, HEALTHY))).toEqual(Object.keys(HEALTHY));
      }),
    );
  });
});

describe('behaviourEntries', () => {
  it('takes natural types as well as text', () => {
    const input = { status: [500, 200], latencyMs: 5, drop: true, flaky: '0.5', body: undefined };
    expect(readBehaviour(behaviourEntries(input), HEALTHY)).toEqual({
      ...HEALTHY,
      status: [500, 200],
      latencyMs: 5,
      drop: 1,
      flaky: 0.5,
    });
  });

  it.each([[null], [[]], ['status=200'], [{ status: null }], [{ status: {} }], [{ status: [[200]] }]])(
    'refuses %j',
    (input) => {
      expect(problemsOf(() => behaviourEntries(input))).not.toEqual([]);
    },
  );
});
