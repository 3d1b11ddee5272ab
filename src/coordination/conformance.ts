import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { EndpointId } from '../shared/ids.ts';
import type { Coordination } from './port.ts';

/** An adapter under test, with a way to let its time pass (a held clock, or really waiting where the server has the clock). */
export interface CoordinationHarness {
  readonly coordination: Coordination;
  advance(ms: number): Promise<void>;
  close(): Promise<void>;
}

const A = '0190aaaa-0000-7000-8000-00000000000a' as EndpointId;
const B = '0190aaaa-0000-7000-8000-00000000000b' as EndpointId;

/** What every adapter of the coordination port must do. Adding an adapter means making this green. */
export function coordinationConformance(name: string, open: () => Promise<CoordinationHarness>): void {
  describe(`coordination conformance: ${name}`, () => {
    let harness: CoordinationHarness;
    let coordination: Coordination;
    beforeEach(async () => {
      harness = await open();
      coordination = harness.coordination;
    });
    afterEach(() => harness.close());

    const slots = (endpointId: EndpointId, wanted: number, maxConcurrency: number) =>
      coordination.acquire([{ endpointId, wanted, limits: { maxConcurrency, rate: null } }]);

    it('lets a bucket give its burst at once and then its rate', async () => {
      const limit = { ratePerSecond: 2, burst: 5 };
      for (let i = 0; i < 5; i++) expect(await coordination.take('t', 1, limit)).toEqual({ ok: true });
      const refused = await coordination.take('t', 1, limit);
      expect(refused).toMatchObject({ ok: false });
      if (!refused.ok) expect(refused.retryAfterMs).toBeGreaterThan(0);
      if (!refused.ok) expect(refused.retryAfterMs).toBeLessThanOrEqual(500);
      await harness.advance(510);
      expect(await coordination.take('t', 1, limit)).toEqual({ ok: true });
      expect(await coordination.take('t', 1, limit)).toMatchObject({ ok: false });
    });

    it('takes all or none', async () => {
      const limit = { ratePerSecond: 1, burst: 3 };
      expect(await coordination.take('t', 4, limit)).toMatchObject({ ok: false });
      expect(await coordination.take('t', 3, limit)).toEqual({ ok: true });
    });

    it('charges what is not there as a debt, which is paid before anything is taken again', async () => {
      const limit = { ratePerSecond: 10, burst: 5 };
      await coordination.charge('t', 7, limit);
      const refused = await coordination.take('t', 1, limit);
      expect(refused.ok).toBe(false);
      if (!refused.ok) expect(refused.retryAfterMs).toBeGreaterThan(200);
      await harness.advance(320);
      expect(await coordination.take('t', 1, limit)).toEqual({ ok: true });
      await coordination.charge('t', 1_000, limit);
      const most = await coordination.take('t', 1, limit);
      if (!most.ok) expect(most.retryAfterMs).toBeLessThanOrEqual(600);
      expect(most.ok).toBe(false);
    });

    it('keeps buckets apart', async () => {
      const limit = { ratePerSecond: 1, burst: 1 };
      expect(await coordination.take('t', 1, limit)).toEqual({ ok: true });
      expect(await coordination.take('u', 1, limit)).toEqual({ ok: true });
    });

    it('never has more permits out than slots, and gives released ones again', async () => {
      const [first] = await slots(A, 5, 3);
      expect(first?.permits).toHaveLength(3);
      expect((await slots(A, 1, 3))[0]?.permits).toHaveLength(0);
      coordination.release(first!.permits.slice(0, 2), true);
      expect((await slots(A, 5, 3))[0]?.permits).toHaveLength(2);
      expect((await slots(B, 5, 3))[0]?.permits).toHaveLength(3);
    });

    it('does not count a release twice', async () => {
      const [grant] = await slots(A, 1, 1);
      coordination.release(grant!.permits, true);
      coordination.release(grant!.permits, true);
      expect((await slots(A, 5, 1))[0]?.permits).toHaveLength(1);
      expect((await slots(A, 5, 1))[0]?.permits).toHaveLength(0);
    });

    it('limits an endpoint by its rate as well, and says when to ask again', async () => {
      const limits = { maxConcurrency: 10, rate: { ratePerSecond: 2, burst: 2 } };
      const [grant] = await coordination.acquire([{ endpointId: A, wanted: 5, limits }]);
      expect(grant?.permits).toHaveLength(2);
      expect(grant?.retryAfterMs).toBeGreaterThan(0);
      coordination.release(grant!.permits, true);
      const [again] = await coordination.acquire([{ endpointId: A, wanted: 5, limits }]);
      expect(again?.permits).toHaveLength(0);
      await harness.advance(510);
      const [later] = await coordination.acquire([{ endpointId: A, wanted: 5, limits }]);
      expect(later?.permits).toHaveLength(1);
    });

    it('returns the token of a permit that was not used', async () => {
      const limits = { maxConcurrency: 10, rate: { ratePerSecond: 0.01, burst: 1 } };
      const [grant] = await coordination.acquire([{ endpointId: A, wanted: 1, limits }]);
      coordination.release(grant!.permits, false);
      const [again] = await coordination.acquire([{ endpointId: A, wanted: 1, limits }]);
      expect(again?.permits).toHaveLength(1);
    });

    it('does not fill a bucket over its burst with tokens that come back', async () => {
      const limits = { maxConcurrency: 10, rate: { ratePerSecond: 2, burst: 1 } };
      const [grant] = await coordination.acquire([{ endpointId: A, wanted: 5, limits }]);
      expect(grant?.permits).toHaveLength(1);
      await harness.advance(510);
      coordination.release(grant!.permits, false);
      const [again] = await coordination.acquire([{ endpointId: A, wanted: 5, limits }]);
      expect(again?.permits).toHaveLength(1);
    });

    it('gives nothing while more is held than a limit that was lowered', async () => {
      const [grant] = await slots(A, 4, 4);
      expect((await slots(A, 1, 2))[0]?.permits).toHaveLength(0);
      coordination.release(grant!.permits.slice(0, 3), true);
      expect((await slots(A, 5, 2))[0]?.permits).toHaveLength(1);
    });

    it('stays within slots and rate however many ask at a time', async () => {
      const limits = { maxConcurrency: 7, rate: { ratePerSecond: 0.01, burst: 5 } };
      const many = Array.from({ length: 10 }, () => [
        slots(A, 3, 7),
        coordination.acquire([{ endpointId: B, wanted: 3, limits }]),
      ]);
      const granted = (await Promise.all(many.flat())).flat();
      const countOf = (id: EndpointId) =>
        granted.filter((grant) => grant.endpointId === id).flatMap((grant) => grant.permits).length;
      expect([countOf(A), countOf(B)]).toEqual([7, 5]);
      expect([coordination.held().get(A), coordination.held().get(B)]).toEqual([7, 5]);
    });

    it('counts right when slots are released while others are asked for', async () => {
      const [first] = await slots(A, 2, 3);
      const asking = slots(A, 5, 3);
      coordination.release(first!.permits, true);
      const [second] = await asking;
      expect(coordination.held().get(A)).toBe(second!.permits.length);
      const [third] = await slots(A, 5, 3);
      expect(second!.permits.length + third!.permits.length).toBe(3);
      coordination.release([...second!.permits, ...third!.permits], true);
      expect(coordination.held().has(A)).toBe(false);
      expect((await slots(A, 5, 3))[0]?.permits).toHaveLength(3);
    });

    it('counts an endpoint that comes twice in a batch twice', async () => {
      const request = { endpointId: A, wanted: 2, limits: { maxConcurrency: 3, rate: null } };
      const grants = await coordination.acquire([request, request]);
      expect(grants.map((grant) => grant.permits.length)).toEqual([2, 1]);
    });

    it('answers a batch in its order', async () => {
      const grants = await coordination.acquire([
        { endpointId: B, wanted: 1, limits: { maxConcurrency: 1, rate: null } },
        { endpointId: A, wanted: 2, limits: { maxConcurrency: 2, rate: null } },
      ]);
      expect(grants.map((grant) => [grant.endpointId, grant.permits.length])).toEqual([
        [B, 1],
        [A, 2],
      ]);
      expect(coordination.held().get(A)).toBe(2);
    });
  });
}
