import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import type { Coordination } from '../coordination/port.ts';
import type { DeliveryId, EndpointId } from '../shared/ids.ts';
import type { Capacity, ClaimedWork, Transport } from './port.ts';

/** An adapter under test on a database of its own, with two endpoints that allow `concurrency` requests each. */
export interface TransportHarness {
  readonly endpoints: readonly [EndpointId, EndpointId];
  readonly concurrency: number;
  readonly coordination: Coordination;
  /** One more process on the same database. */
  open(): Promise<Transport>;
  /** Accepts events for an endpoint without telling any transport; answers the deliveries in order of acceptance. */
  accept(endpointId: EndpointId, count: number): Promise<DeliveryId[]>;
  /** Moves the due time of all open work of an endpoint. */
  postpone(endpointId: EndpointId, ms: number): Promise<void>;
  setState(endpointId: EndpointId, state: 'active' | 'paused'): Promise<void>;
  /** As if a worker that vanished had claimed all open work of an endpoint. */
  lease(endpointId: EndpointId, ms: number): Promise<void>;
  /** As if the lease time had passed. */
  expireLeases(): Promise<void>;
  /** Outcomes recorded for a delivery, by attempt number. */
  outcomes(deliveryId: DeliveryId): Promise<string[]>;
  close(): Promise<void>;
}

const PATIENCE_MS = 10_000;

/** What every adapter of the transport port must do. Adding an adapter means making this green. */
export function transportConformance(name: string, openHarness: () => Promise<TransportHarness>): void {
  describe(`transport conformance: ${name}`, () => {
    let harness: TransportHarness;
    let receivers: Receiver[];
    const receive = async (room = 1_000): Promise<Receiver> => {
      const receiver = new Receiver(await harness.open(), harness.coordination, room);
      receivers.push(receiver);
      return receiver;
    };
    beforeEach(async () => {
      harness = await openHarness();
      receivers = [];
    });
    afterEach(async () => {
      for (const receiver of receivers) await receiver.close();
      await harness.close();
    });

    it('hands out every due delivery once, each with a lease token of its own and attempt number 1', async () => {
      const [a] = harness.endpoints;
      const accepted = await harness.accept(a, 30);
      const receiver = await receive();
      receiver.releaseAtOnce = true;
      receiver.transport.announce([{ endpointId: a, inMs: 0 }]);
      await receiver.until((work) => work.length >= 30);
      expect(receiver.work.map((w) => w.deliveryId).sort()).toEqual([...accepted].sort());
      expect(new Set(receiver.work.map((w) => w.leaseToken)).size).toBe(30);
      expect(new Set(receiver.work.map((w) => w.attemptNumber))).toEqual(new Set([1]));
    });

    it('finds work that nobody told of', async () => {
      const [a] = harness.endpoints;
      await harness.accept(a, 3);
      const receiver = await receive();
      await receiver.until((work) => work.length === 3);
    });

    it('does not hand out what is not due, and does so when its time comes', async () => {
      const [a, b] = harness.endpoints;
      await harness.accept(a, 1);
      await harness.postpone(a, 300);
      const started = performance.now();
      const receiver = await receive();
      await harness.accept(b, 1);
      receiver.transport.announce([{ endpointId: b, inMs: 0 }]);
      await receiver.until((work) => work.length === 2);
      const late = receiver.work.find((w) => w.endpointId === a);
      expect(receiver.arrivedAtMs.get(late!.deliveryId)! - started).toBeGreaterThanOrEqual(250);
    });

    it("never has more out than an endpoint's slots, and goes on when one is released", async () => {
      const [a] = harness.endpoints;
      await harness.accept(a, harness.concurrency + 2);
      const receiver = await receive();
      await receiver.until((work) => work.length === harness.concurrency);
      receiver.release(1);
      await receiver.until((work) => work.length === harness.concurrency + 1);
      expect(harness.coordination.held().get(a)).toBe(harness.concurrency);
    });

    it("takes no more than the worker's room", async () => {
      const [a, b] = harness.endpoints;
      await harness.accept(a, 3);
      await harness.accept(b, 3);
      const receiver = await receive(2);
      await receiver.until((work) => work.length === 2);
      receiver.release(2);
      await receiver.until((work) => work.length === 4);
      expect(receiver.work).toHaveLength(4);
    });

    it('lets a large backlog of one endpoint not hold up another', async () => {
      const [a, b] = harness.endpoints;
      await harness.accept(a, 500);
      const receiver = await receive();
      await receiver.until((work) => work.length >= harness.concurrency);
      const [mine] = await harness.accept(b, 1);
      receiver.transport.announce([{ endpointId: b, inMs: 0 }]);
      await receiver.until((work) => work.some((w) => w.deliveryId === mine));
      expect(receiver.work.length).toBeLessThanOrEqual(harness.concurrency + 1);
    });

    it('hands out nothing of a paused endpoint until it is resumed', async () => {
      const [a, b] = harness.endpoints;
      await harness.setState(a, 'paused');
      await harness.accept(a, 2);
      await harness.accept(b, 2);
      const receiver = await receive();
      await receiver.until((work) => work.length === 2);
      expect(receiver.work.every((w) => w.endpointId === b)).toBe(true);
      await harness.setState(a, 'active');
      receiver.transport.endpointChanged(a);
      await receiver.until((work) => work.length === 4);
    });

    it('never hands one delivery to two processes', async () => {
      const [a, b] = harness.endpoints;
      const first = await receive();
      const second = await receive();
      first.releaseAtOnce = true;
      second.releaseAtOnce = true;
      await harness.accept(a, 200);
      await harness.accept(b, 200);
      first.transport.announce(harness.endpoints.map((endpointId) => ({ endpointId, inMs: 0 })));
      await Promise.race([
        first.until((work) => work.length + second.work.length === 400),
        second.until((work) => work.length + first.work.length === 400),
      ]);
      const all = [...first.work, ...second.work].map((w) => w.deliveryId);
      expect(new Set(all).size).toBe(400);
    });

    it('hands out again what a vanished worker held, and records its attempt as unknown', async () => {
      const [a] = harness.endpoints;
      const [deliveryId] = await harness.accept(a, 1);
      const vanished = await receive();
      await vanished.until((work) => work.length === 1);
      await vanished.close();
      await harness.expireLeases();
      const heir = await receive();
      await heir.until((work) => work.length === 1);
      expect(heir.work[0]).toMatchObject({ deliveryId, attemptNumber: 2 });
      expect(heir.work[0]!.leaseToken).not.toBe(vanished.work[0]!.leaseToken);
      expect(await harness.outcomes(deliveryId!)).toEqual(['unknown']);
    });

    it('ends when it is told to, with work still waiting', async () => {
      const [a] = harness.endpoints;
      await harness.accept(a, 100);
      const receiver = await receive();
      await receiver.until((work) => work.length > 0);
      await receiver.close();
    });
  });
}

/** A worker that only takes: holds what it got until told to release it. */
export class Receiver {
  readonly transport: Transport;
  readonly work: ClaimedWork[] = [];
  readonly arrivedAtMs = new Map<DeliveryId, number>();
  releaseAtOnce = false;
  readonly #coordination: Coordination;
  readonly #controller = new AbortController();
  readonly #done: Promise<void>;
  #held: ClaimedWork[] = [];
  #more: () => void = () => undefined;
  #watchers: (() => void)[] = [];

  constructor(transport: Transport, coordination: Coordination, room: number) {
    this.transport = transport;
    this.#coordination = coordination;
    const capacity: Capacity = {
      free: () => room - this.#held.length,
      onMore: (listener) => void (this.#more = listener),
    };
    this.#done = this.#run(capacity);
  }

  release(count: number): void {
    const released = this.#held.splice(0, count);
    this.#coordination.release(
      released.map((work) => work.permit),
      true,
    );
    this.#more();
  }

  /** Looks at what has come after each batch. @throws after ten seconds, with what came */
  async until(fits: (work: readonly ClaimedWork[]) => boolean): Promise<void> {
    const timeout = AbortSignal.timeout(PATIENCE_MS);
    while (!fits(this.work)) {
      if (timeout.aborted) throw new Error(`only ${this.work.length} deliveries came`);
      await new Promise<void>((resolve) => {
        this.#watchers.push(resolve);
        timeout.addEventListener('abort', () => resolve(), { once: true });
      });
    }
  }

  async close(): Promise<void> {
    this.#controller.abort();
    await this.#done;
    this.release(this.#held.length);
    await this.transport.close();
  }

  async #run(capacity: Capacity): Promise<void> {
    for await (const batch of this.transport.receive(capacity, this.#controller.signal)) {
      for (const work of batch) {
        this.work.push(work);
        this.#held.push(work);
        this.arrivedAtMs.set(work.deliveryId, performance.now());
      }
      if (this.releaseAtOnce) this.release(batch.length);
      for (const watcher of this.#watchers.splice(0)) watcher();
    }
  }
}
