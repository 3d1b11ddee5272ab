import { hash } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { DeliveryLedger } from './delivery-ledger.ts';

const digest = (text: string): string => hash('sha256', text, 'binary');

describe('DeliveryLedger', () => {
  it('counts as a plain map would, over many slabs', () => {
    const request = fc.record({ id: fc.nat(3_000).map((n) => `d${n}`), ok: fc.boolean(), body: fc.nat(1) });
    fc.assert(
      fc.property(fc.array(request, { maxLength: 5_000, size: 'max' }), (requests) => {
        const ledger = new DeliveryLedger({ left: 10_000 });
        const expected = new Map<string, { count: number; ok: number; body: string }>();
        for (const { id, ok, body } of requests) {
          const text = String(body);
          const known = expected.get(id) ?? { count: 0, ok: 0, body: text };
          const entry = ledger.arrive(id, digest(text));
          expect(entry).toMatchObject({
            before: known.count,
            okBefore: known.ok,
            sameBody: known.body === text,
          });
          if (ok && entry) ledger.answeredOk(entry.row);
          expected.set(id, { ...known, count: known.count + 1, ok: known.ok + (ok ? 1 : 0) });
        }
        expect(ledger.size).toBe(expected.size);
        expect(ledger.succeeded).toBe([...expected.values()].filter((e) => e.ok > 0).length);
        expect(ledger.page(0, 10_000)).toEqual(
          [...expected].map(([id, e]) => [id, e.count, e.ok, hash('sha256', e.body)]),
        );
      }),
      { numRuns: 20 },
    );
  });

  it('pages in order of arrival', () => {
    const ledger = new DeliveryLedger({ left: 5_000 });
    for (let n = 0; n < 2_500; n += 1) ledger.arrive(`d${n}`, digest('x'));
    const pages = [0, 1_000, 2_000, 3_000].map((after) => ledger.page(after, 1_000));
    expect(pages.map((page) => page.length)).toEqual([1_000, 1_000, 500, 0]);
    expect(pages.flat().map(([id]) => id)).toEqual(Array.from({ length: 2_500 }, (_, n) => `d${n}`));
  });

  it('takes no new delivery beyond the budget that it shares, and gives its part back', () => {
    const budget = { left: 3 };
    const first = new DeliveryLedger(budget);
    const second = new DeliveryLedger(budget);
    first.arrive('a', digest('x'));
    first.arrive('b', digest('x'));
    second.arrive('c', digest('x'));
    expect(second.arrive('d', digest('x'))).toBeUndefined();
    expect(first.arrive('a', digest('x'))).toMatchObject({ before: 1 });
    first.release();
    expect(second.arrive('d', digest('x'))).toMatchObject({ before: 0 });
  });
});
