import { randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SecretBox, formatSecret, newSecret, parseSecret, secretBytes } from './secret-box.ts';

const box = new SecretBox(randomBytes(32).toString('base64'));
const HERE = '0190aaaa-0000-7000-8000-000000000001';
const ELSEWHERE = '0190aaaa-0000-7000-8000-000000000002';
const secret = fc.uint8Array({ minLength: 24, maxLength: 64 });

describe('a sealed secret', () => {
  it('opens to the same bytes, and shows nothing of them', () => {
    fc.assert(
      fc.property(secret, (bytes) => {
        const sealed = box.seal(bytes, HERE);
        expect(box.open(sealed, HERE).equals(bytes)).toBe(true);
        expect(sealed.includes(Buffer.from(bytes).subarray(0, 8))).toBe(false);
        expect(box.seal(bytes, HERE).equals(sealed)).toBe(false);
      }),
    );
  });

  it('does not open once any bit is changed', () => {
    fc.assert(
      fc.property(secret, fc.nat(), fc.integer({ min: 0, max: 7 }), (bytes, at, bit) => {
        const sealed = box.seal(bytes, HERE);
        const index = at % sealed.length;
        sealed.writeUInt8(sealed.readUInt8(index) ^ (1 << bit), index);
        expect(() => box.open(sealed, HERE)).toThrow();
      }),
    );
  });

  it('does not open when a piece is missing', () => {
    const sealed = box.seal(newSecret(), HERE);
    for (let length = 0; length < sealed.length; length++) {
      expect(() => box.open(sealed.subarray(0, length), HERE), `${length} bytes`).toThrow();
    }
  });

  it('does not open for another endpoint or under another key', () => {
    const sealed = box.seal(newSecret(), HERE);
    expect(() => box.open(sealed, ELSEWHERE)).toThrow();
    expect(() => new SecretBox(randomBytes(32).toString('base64')).open(sealed, HERE)).toThrow();
  });

  it.each(['', 'short', randomBytes(31).toString('base64'), randomBytes(33).toString('base64')])(
    'needs a key of 32 bytes, not %j',
    (key) => {
      expect(() => new SecretBox(key)).toThrow('secrets.key');
    },
  );
});

describe('the text of a secret', () => {
  it('is read back as it was written', () => {
    fc.assert(
      fc.property(secret, (bytes) => {
        expect(parseSecret(formatSecret(bytes))?.equals(bytes)).toBe(true);
      }),
    );
  });

  it.each([
    ['no prefix', randomBytes(32).toString('base64')],
    ['another prefix', 'whpk_' + randomBytes(32).toString('base64')],
    ['23 bytes', formatSecret(randomBytes(23))],
    ['65 bytes', formatSecret(randomBytes(65))],
    ['nothing behind the prefix', 'whsec_'],
    ['what is no base64', 'whsec_' + '!'.repeat(40)],
    ['a line end', formatSecret(randomBytes(32)) + '\n'],
  ])('is refused with %s', (_name, text) => {
    expect(parseSecret(text)).toBeNull();
    expect(() => secretBytes(text)).toThrow();
  });

  it('is made anew when none is given', () => {
    expect(secretBytes(undefined)).toHaveLength(32);
    expect(secretBytes(undefined).equals(secretBytes(undefined))).toBe(false);
  });
});
