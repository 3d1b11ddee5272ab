import { openBenchSystem } from '../bench-system.ts';
import { measureDrain, untilEnded } from '../drain.ts';
import type { Scenario } from '../scenario.ts';
import { seedEndpoints, seedPending } from '../seed.ts';
import { rate, round } from '../statistics.ts';
import { ENDPOINTS, PAYLOAD_BYTES } from './drain.ts';

const RECIPIENTS = 1_000;
const EVENTS = 20;

export const fanout: Scenario = {
  name: 'fanout',
  text: 'events to 1,000 endpoints each; rate over 20 of them, lastMs of a single one',
  targets: [{ field: 'ratioToDrain', atLeast: 0.8 }],
  run: async (context) => {
    const { progress, scale } = context;
    const events = Math.max(1, Math.round(EVENTS * scale));
    const system = await openBenchSystem(context);
    try {
      const drained = RECIPIENTS * events;
      const few = await seedEndpoints(system, ENDPOINTS, { prefix: 'd' });
      await seedPending(system, few, drained, PAYLOAD_BYTES);
      const base = await measureDrain(
        system,
        drained,
        1,
        () => Promise.resolve(),
        (done) => progress('drain', done, drained),
      );
      await seedEndpoints(system, RECIPIENTS);
      await system.runtime.database.requests.query(
        "UPDATE relayops.endpoint_subscriptions SET pattern = 'fan.out' WHERE pattern LIKE 'bench.e%'",
      );
      const payload = Buffer.from(JSON.stringify({ data: 'x'.repeat(PAYLOAD_BYTES) }));
      const before = await system.receiverTotals();
      const { first, all } = await system.withWorker(async (worker) => {
        const send = async (): Promise<void> => {
          const result = await worker.acceptor.accept({
            tenantId: system.tenantId,
            type: 'fan.out',
            contentType: 'application/json',
            payload,
            idempotencyKey: null,
            format: 'native',
            attributes: null,
            traceparent: null,
            occurredAt: null,
          });
          if (!result.ok) throw result.error;
        };
        // Loads the endpoints into the process, as they are in one that has been running.
        await send();
        await untilEnded(worker, RECIPIENTS, () => undefined);
        const begun = performance.now();
        await send();
        await untilEnded(worker, RECIPIENTS * 2, () => undefined);
        const firstMs = performance.now() - begun;
        const started = performance.now();
        for (let i = 0; i < events; i++) await send();
        await untilEnded(worker, RECIPIENTS * (2 + events), (done) =>
          progress('fan out', done, RECIPIENTS * (2 + events)),
        );
        return { first: firstMs, all: performance.now() - started };
      });
      const after = await system.receiverTotals();
      const measured = rate(RECIPIENTS * events, all);
      return {
        rate: measured,
        lastMs: Math.round(first),
        drainRate: base.rate,
        ratioToDrain: round(measured / base.rate),
        lost: RECIPIENTS * (2 + events) - (after.succeeded - before.succeeded),
        duplicates: after.duplicatesAfterSuccess,
      };
    } finally {
      await system.close();
    }
  },
};
