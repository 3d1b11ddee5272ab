import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { type Behaviour, HEALTHY } from './behaviour.ts';
import { type Occasion, delayOf, fateOf } from './fate.ts';

const at = (before: number, deliveryBefore = 0, deliveryId: string | undefined = 'd1'): Occasion => ({
  before,
  deliveryId,
  deliveryBefore,
});
const statuses = (behaviour: Partial<Behaviour>, occasions: Occasion[]): unknown[] =>
  occasions.map((occasion) => {
    const fate = fateOf({ ...HEALTHY, ...behaviour }, occasion);
    return 'status' in fate ? fate.status : fate.kind;
  });

describe('fateOf', () => {
  it('goes through the sequence once and stays at its end, or begins again', () => {
    const five = [0, 1, 2, 3, 4].map((n) => at(n));
    expect(statuses({ status: [500, 429, 200] }, five)).toEqual([500, 429, 200, 200, 200]);
    expect(statuses({ status: [500, 200], loop: true }, five)).toEqual([500, 200, 500, 200, 500]);
  });

  it('moves on with each delivery when asked, and with requests where there is no delivery ID', () => {
    const behaviour = { status: [500, 200], per: 'delivery' } as const;
    expect(statuses(behaviour, [at(0, 0, 'a'), at(1, 0, 'b'), at(2, 1, 'a')])).toEqual([500, 500, 200]);
    const nameless = (before: number): Occasion => ({ before, deliveryId: undefined, deliveryBefore: 0 });
    expect(statuses(behaviour, [nameless(0), nameless(1)])).toEqual([500, 200]);
  });

  it('redirects with 302, or with the 3xx that is asked for', () => {
    expect(statuses({ redirect: '/x' }, [at(0)])).toEqual([302]);
    expect(statuses({ redirect: '/x', status: [307] }, [at(0)])).toEqual([307]);
  });

  it('puts drop before hang, hang before reset, reset before an answer', () => {
    expect(fateOf({ ...HEALTHY, drop: 1, hang: true, reset: true }, at(0))).toEqual({ kind: 'drop' });
    expect(fateOf({ ...HEALTHY, hang: true, reset: true }, at(0))).toEqual({ kind: 'hang' });
    expect(fateOf({ ...HEALTHY, reset: true, status: [201] }, at(0))).toEqual({ kind: 'reset', status: 201 });
  });

  it('has the same fate for the same occasion, and about the share that was asked for', () => {
    const behaviour = { ...HEALTHY, flaky: 0.3, drop: 0.1 };
    const occasions = Array.from({ length: 20_000 }, (_, n) => at(n, n % 3, `delivery-${Math.floor(n / 3)}`));
    const fates = occasions.map((occasion) => fateOf(behaviour, occasion));
    expect(occasions.map((occasion) => fateOf(behaviour, { ...occasion, before: 7 }))).toEqual(fates);
    const dropped = fates.filter((fate) => fate.kind === 'drop').length / fates.length;
    const failed =
      fates.filter((fate) => 'status' in fate && fate.status === 500).length / fates.length / (1 - dropped);
    expect(dropped).toBeGreaterThan(0.08);
    expect(dropped).toBeLessThan(0.12);
    expect(failed).toBeGreaterThan(0.27);
    expect(failed).toBeLessThan(0.33);
  });

  it('throws the dice anew for another seed, and again for a repetition', () => {
    const flaky = { ...HEALTHY, flaky: 0.5 };
    const row = (behaviour: Behaviour, repetition: number): string =>
      Array.from({ length: 64 }, (_, n) =>
        JSON.stringify(fateOf(behaviour, at(n, repetition, `d${n}`))),
      ).join();
    expect(row(flaky, 0)).not.toBe(row({ ...flaky, seed: '2' }, 0));
    expect(row(flaky, 0)).not.toBe(row(flaky, 1));
  });
});

describe('delayOf', () => {
  it('lies between the latency and the latency with all jitter', () => {
    fc.assert(
      fc.property(fc.nat(1_000), fc.nat(1_000), fc.nat(), (latencyMs, jitterMs, before) => {
        const delayMs = delayOf({ ...HEALTHY, latencyMs, jitterMs }, at(before, before));
        expect(delayMs).toBeGreaterThanOrEqual(latencyMs);
        expect(delayMs).toBeLessThanOrEqual(latencyMs + jitterMs);
        expect(Number.isInteger(delayMs)).toBe(true);
      }),
    );
  });
});
