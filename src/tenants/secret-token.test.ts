import { createHash } from 'node:crypto';
import { describe, expect, it } from 'vitest';
import { digestOf, digestTextOf, isApiKeyShaped, mintApiKey, mintToken } from './secret-token.ts';

describe('secrets', () => {
  it('are new each time and begin with their kind', () => {
    const keys = Array.from({ length: 100 }, () => mintApiKey());
    expect(new Set(keys.map(({ key }) => key)).size).toBe(100);
    for (const { key, prefix } of keys) {
      expect(isApiKeyShaped(key)).toBe(true);
      expect(key.startsWith(`${prefix}_`)).toBe(true);
      expect(prefix).toHaveLength(12);
    }
    expect(mintToken('refresh')).toMatch(/^rrt_[\w-]{43}$/);
    expect(mintToken('bootstrap')).toMatch(/^rbt_[\w-]{43}$/);
  });

  it('use every letter about equally', () => {
    const counts = new Map<string, number>();
    for (let i = 0; i < 2_000; i++)
      for (const letter of mintApiKey().key.slice(13)) counts.set(letter, (counts.get(letter) ?? 0) + 1);
    const expected = (2_000 * 43) / 62;
    expect(counts.size).toBe(62);
    // Six standard deviations: a fair source stays within them, plain `byte % 62` does not.
    for (const count of counts.values())
      expect(Math.abs(count - expected)).toBeLessThan(6 * Math.sqrt(expected));
  });

  it('are kept as SHA-256', () => {
    const digest = createHash('sha256').update('x').digest();
    expect(digestOf('x')).toEqual(digest);
    expect(digestTextOf('x')).toBe(digest.toString('hex'));
  });
});
