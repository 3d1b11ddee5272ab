import { describe, expect, it } from 'vitest';
import { AnswerCache } from './answer-cache.ts';

function cache(maxEntries: number) {
  const made = new AnswerCache<string>(maxEntries, () => 0);
  const put = (name: string, share: string) => made.set(name, name, 1_000, share);
  return { made, put };
}

describe('AnswerCache', () => {
  it('holds no more than its limit, and half of it for one share', () => {
    const { made, put } = cache(10);
    for (let i = 0; i < 50; i += 1) put(`a${i}`, 'a');
    expect(made.size).toBe(5);
    expect(made.get('a49')).toBe('a49');
    expect(made.get('a44')).toBeUndefined();
    for (let i = 0; i < 50; i += 1) put(`b${i}`, `b${i}`);
    expect(made.size).toBe(10);
  });

  it('keeps the answers of others when one share has ever new names', () => {
    const { made, put } = cache(10);
    for (const name of ['v', 'w']) put(name, 'b');
    for (const name of ['x', 'y', 'z']) put(name, 'c');
    for (let i = 0; i < 1_000; i += 1) put(`a${i}`, 'a');
    expect(['v', 'w', 'x', 'y', 'z'].map((name) => made.get(name))).toEqual(['v', 'w', 'x', 'y', 'z']);
  });

  it('gives a new share the place of the least recently used answer', () => {
    const { made, put } = cache(4);
    for (const name of ['1', '2', '3', '4']) put(name, `s${name}`);
    made.get('1');
    put('5', 'new');
    expect(['1', '2', '3', '4', '5'].map((name) => made.get(name))).toEqual(['1', undefined, '3', '4', '5']);
  });

  it('replaces an answer in its place', () => {
    const { made, put } = cache(2);
    put('1', 'a');
    put('1', 'b');
    put('2', 'a');
    expect(made.size).toBe(2);
    expect(made.get('1')).toBe('1');
  });
});
