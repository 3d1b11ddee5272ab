import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { RelayError } from '../../shared/errors.ts';
import { decodeCursor, encodeCursor } from './cursor.ts';

const parts = fc.array(fc.string({ unit: 'binary', maxLength: 40 }), { minLength: 1, maxLength: 4 });

function codeOf(action: () => unknown): string {
  try {
    action();
  } catch (error) {
    if (error instanceof RelayError) return error.code;
    throw error;
  }
  return 'none';
}

describe('cursors', () => {
  it('give back the parts they were made of, and are safe in a URL', () => {
    fc.assert(
      fc.property(parts, (given) => {
        const text = encodeCursor(given);
        expect(encodeURIComponent(text)).toBe(text);
        expect(decodeCursor(text, given.length)).toEqual(given);
      }),
    );
  });

  it('keep lone surrogates', () => {
    expect(decodeCursor(encodeCursor(['\ud800', 'x\udfff']), 2)).toEqual(['\ud800', 'x\udfff']);
  });

  it('are refused for another number of parts', () => {
    fc.assert(
      fc.property(parts, fc.integer({ min: 0, max: 6 }), (given, expected) => {
        fc.pre(expected !== given.length);
        expect(codeOf(() => decodeCursor(encodeCursor(given), expected))).toBe('CURSOR_INVALID');
      }),
    );
  });

  it('refuse every text that encodeCursor would not make, and never throw anything else', () => {
    fc.assert(
      fc.property(
        fc.oneof(
          fc.string(),
          fc.base64String(),
          fc.json().map((json) => Buffer.from(json).toString('base64url')),
          fc.json().map((json) => Buffer.from(`[${json}]`).toString('base64url')),
        ),
        (text) => {
          const code = codeOf(() => expect(encodeCursor(decodeCursor(text, 1))).toBe(text));
          expect(['none', 'CURSOR_INVALID']).toContain(code);
        },
      ),
    );
  });

  it.each([
    ['empty', ''],
    ['no base64url', 'a+b/'],
    ['no JSON', Buffer.from('nope').toString('base64url')],
    ['no array', Buffer.from('{"a":1}').toString('base64url')],
    ['numbers', Buffer.from('[1]').toString('base64url')],
    ['spaces between', Buffer.from('[ "a" ]').toString('base64url')],
    ['too long', encodeCursor(['x'.repeat(5_000)])],
  ])('refuse text that is %s', (_name, text) => {
    expect(codeOf(() => decodeCursor(text, 1))).toBe('CURSOR_INVALID');
  });
});
