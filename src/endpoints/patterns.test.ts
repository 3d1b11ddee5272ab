import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_EVENT_TYPE_LENGTH, isEventType, isPattern, matchesPattern } from './patterns.ts';

const segment = fc.stringMatching(/^[A-Za-z0-9_]{1,8}$/);
const dotted = fc.array(segment, { minLength: 1, maxLength: 5 }).map((parts) => parts.join('.'));

describe('event types', () => {
  it.each([
    'order',
    'order.paid',
    'run.created@2.0',
    'a-b.c_d',
    'com/example:x.y',
    'x'.repeat(MAX_EVENT_TYPE_LENGTH),
  ])('takes %j', (text) => {
    expect([isEventType(text), isPattern(text)]).toEqual([true, true]);
  });

  it.each([
    '',
    '.',
    'a.',
    '.a',
    'a..b',
    'a b',
    'a\n',
    'ä',
    '*',
    'a.*',
    'x'.repeat(MAX_EVENT_TYPE_LENGTH + 1),
  ])('refuses %j', (text) => {
    expect(isEventType(text)).toBe(false);
  });
});

describe('patterns', () => {
  it.each(['*', 'order.*', 'order.refund.*', 'order.paid'])('takes %j', (text) => {
    expect(isPattern(text)).toBe(true);
  });

  it.each([
    '',
    '.*',
    '**',
    '*.*',
    'order*',
    '*.paid',
    'order.*.paid',
    'order..*',
    'order.*\n',
    ' order',
    'order.',
  ])('refuses %j', (text) => {
    expect(isPattern(text)).toBe(false);
  });

  it('match as their definition says', () => {
    fc.assert(
      fc.property(dotted, dotted, (prefix, type) => {
        const below =
          type.split('.').length > prefix.split('.').length && `${type}.`.startsWith(`${prefix}.`);
        expect(matchesPattern(`${prefix}.*`, type)).toBe(below);
        expect(matchesPattern(`${prefix}.*`, `${prefix}.${type}`)).toBe(true);
        expect(matchesPattern(`${prefix}.*`, prefix)).toBe(false);
        expect(matchesPattern(prefix, type)).toBe(prefix === type);
        expect(matchesPattern('*', type)).toBe(true);
      }),
    );
  });
});
