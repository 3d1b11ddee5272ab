import { validateHeaderName, validateHeaderValue } from 'node:http';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { MAX_OWN_HEADERS, MAX_OWN_HEADER_BYTES, headerProblems, isOwnHeaderAllowed } from './header-rules.ts';

const name = fc.stringMatching(/^X-[A-Za-z0-9-]{1,12}$/).filter((text) => !/^x-relayops-/i.test(text));
const value = fc.stringMatching(/^[\x21-\x7e]([\x20-\x7e]{0,20}[\x21-\x7e])?$/);
const RESERVED = [
  'Host',
  'Content-Length',
  'Content-Type',
  'Connection',
  'Keep-Alive',
  'Proxy-Authorization',
  'Proxy-Connection',
  'TE',
  'Trailer',
  'Transfer-Encoding',
  'Upgrade',
  'Expect',
  'User-Agent',
  'Traceparent',
  'Webhook-Id',
  'Webhook-Signature',
  'Webhook-Anything',
  'X-RelayOps-Delivery-Id',
  '__proto__',
];
const inAnyCase = (text: string) =>
  fc
    .array(fc.boolean(), { minLength: text.length, maxLength: text.length })
    .map((upper) =>
      Array.from(text, (char, i) => (upper[i] ? char.toUpperCase() : char.toLowerCase())).join(''),
    );

describe('own headers', () => {
  it('that pass can be sent', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.oneof(name, fc.string()), fc.oneof(value, fc.string()), { maxKeys: 4 }),
        (headers) => {
          if (headerProblems(headers).length > 0) return;
          for (const [key, text] of Object.entries(headers)) {
            validateHeaderName(key);
            validateHeaderValue(key, text);
            expect(new Headers({ [key]: text }).get(key)).toBe(text);
          }
        },
      ),
    );
  });

  it('pass when names are tokens and values are printable', () => {
    fc.assert(
      fc.property(name, fc.oneof(value, fc.constant('')), (key, text) => {
        expect(headerProblems({ [key]: text })).toEqual([]);
      }),
    );
  });

  it('never replace ours or those of the connection, in any case', () => {
    fc.assert(
      fc.property(fc.constantFrom(...RESERVED).chain(inAnyCase), (key) => {
        expect(isOwnHeaderAllowed(key)).toBe(false);
        expect(headerProblems(Object.fromEntries([[key, 'x']]))).toHaveLength(1);
      }),
    );
  });

  it('may have names that only look like ours', () => {
    for (const key of ['X-Webhook-Id', 'Hosting', 'Authorization', 'X-Content-Type', 'Team', 'Tracestate'])
      expect(headerProblems({ [key]: 'x' }), key).toEqual([]);
  });

  it('have no control character and nothing beyond ASCII in a value', () => {
    const forbidden = fc.oneof(
      fc.constantFrom('\r', '\n', '\0', '\t', '\x7f', '\x1b', '\u2028', 'é', '名'),
      fc.integer({ min: 0x80, max: 0xffff }).map((code) => String.fromCharCode(code)),
    );
    fc.assert(
      fc.property(value, forbidden, value, (before, char, after) => {
        const [problem, ...others] = headerProblems({ 'X-A': before + char + after });
        expect(others).toEqual([]);
        expect(problem?.field).toBe('headers/X-A');
        if (before.length > 6) expect(problem?.reason).not.toContain(before);
      }),
    );
  });

  it.each(['', 'a b', 'a:b', 'a\r\nb', 'naïve', '"x"', 'a/b'])('have tokens as names, not %j', (key) => {
    const field = `headers/${key.replace('/', '~1')}`;
    expect(headerProblems({ [key]: 'x' })).toMatchObject([{ field, reason: 'is not a header name' }]);
  });

  it('have no space at the ends of a value, which would be lost', () => {
    for (const text of [' a', 'a ', ' ']) expect(headerProblems({ 'X-A': text })).toHaveLength(1);
  });

  it('are not there twice in another case', () => {
    expect(headerProblems({ 'X-A': '1', 'x-a': '2' }).map(({ field }) => field)).toEqual([
      'headers/X-A',
      'headers/x-a',
    ]);
  });

  it('are bounded in number and size', () => {
    const many = (count: number, text = 'v') =>
      Object.fromEntries(Array.from({ length: count }, (_, i) => [`X-${i}`, text]));
    expect(headerProblems(many(MAX_OWN_HEADERS))).toEqual([]);
    expect(headerProblems(many(MAX_OWN_HEADERS + 1))).toMatchObject([{ field: 'headers' }]);
    const size = MAX_OWN_HEADER_BYTES - 'X-0'.length;
    expect(headerProblems(many(1, 'v'.repeat(size)))).toEqual([]);
    expect(headerProblems(many(1, 'v'.repeat(size + 1)))).toMatchObject([{ field: 'headers' }]);
  });
});
