import { createCipheriv, randomBytes } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { SecretBox, formatSecret, keyIdOf, newSecret, parseSecret, secretBytes } from './secret-box.ts';

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

/** The form before key IDs. */
function sealedWithoutId(key: string, bytes: Uint8Array, place: string, nonce = randomBytes(12)): Buffer {
  const cipher = createCipheriv('aes-256-gcm', Buffer.from(key, 'base64'), nonce).setAAD(Buffer.from(place));
  return Buffer.concat([nonce, cipher.update(bytes), cipher.final(), cipher.getAuthTag()]);
}

describe('several keys', () => {
  const [oldKey, newKey] = [randomBytes(32).toString('base64'), randomBytes(32).toString('base64')];
  const bytes = newSecret();

  it('open what each has sealed; only the current one seals', () => {
    const [before, after] = [new SecretBox(oldKey), new SecretBox(newKey, [oldKey])];
    const sealed = before.seal(bytes, HERE);
    expect(after.open(sealed, HERE).equals(bytes)).toBe(true);
    expect(after.isCurrent(sealed)).toBe(false);
    expect(keyIdOf(after.seal(bytes, HERE))).toBe(after.keyId);
    expect(after.isCurrent(after.seal(bytes, HERE))).toBe(true);
    expect(() => before.open(after.seal(bytes, HERE), HERE)).toThrow(`its key ID: ${after.keyId}`);
  });

  it('open the form before key IDs, also when it begins like the new one', () => {
    const after = new SecretBox(newKey, [oldKey]);
    for (const key of [oldKey, newKey])
      for (const nonce of [Buffer.alloc(12, 0), Buffer.alloc(12, 1)]) {
        const sealed = sealedWithoutId(key, bytes, HERE, nonce);
        expect(after.open(sealed, HERE).equals(bytes)).toBe(true);
        expect(after.isCurrent(sealed)).toBe(false);
      }
  });

  it('have IDs that show nothing of them', () => {
    const { keyId } = new SecretBox(newKey);
    expect(keyId).toMatch(/^[0-9a-f]{16}$/);
    expect(Buffer.from(newKey, 'base64').includes(Buffer.from(keyId, 'hex').subarray(0, 3))).toBe(false);
    expect(new SecretBox(newKey, [oldKey]).keyId).toBe(keyId);
  });

  it('are all checked', () => {
    expect(() => new SecretBox(newKey, ['short'])).toThrow('secrets.previousKeys');
  });
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
