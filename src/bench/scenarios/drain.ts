import { openBenchSystem } from '../bench-system.ts';
import { measureDrain, senderYardstick } from '../drain.ts';
import type { BenchContext, Scenario } from '../scenario.ts';
import { seedEndpoints, seedFinished, seedPending } from '../seed.ts';
import { round } from '../statistics.ts';

export const PAYLOAD_BYTES = 1_024;
export const ENDPOINTS = 50;
const DELIVERIES = 50_000;
const YARDSTICK_REQUESTS = 40_000;

export const drain: Scenario = {
  name: 'drain',
  text: '50,000 pending deliveries of 1 KiB over 50 endpoints, the full path',
  targets: [{ field: 'ratio', atLeast: 0.4 }],
  rabbitmqTargets: [{ field: 'ratio', atLeast: 0.25 }],
  run: async (context) => {
    const { progress, scale } = context;
    const count = Math.round(DELIVERIES * scale);
    const system = await openBenchSystem(context);
    try {
      // Half before and half after, because the speed of a machine that others share changes within seconds.
      const half = Math.round((YARDSTICK_REQUESTS * scale) / 2);
      progress('yardstick', 0, 1);
      const before = await senderYardstick(system, half, PAYLOAD_BYTES);
      await system.resetReceivers();
      const endpoints = await seedEndpoints(system, ENDPOINTS);
      const seed = (): Promise<void> => seedPending(system, endpoints, count, PAYLOAD_BYTES);
      const figures = await measureDrain(system, count, context.workers, seed, (done) =>
        progress('drain', done, count),
      );
      const totals = await system.receiverTotals();
      await system.resetReceivers();
      const after = await senderYardstick(system, half, PAYLOAD_BYTES);
      const yardstick = Math.round(2 / (1 / before + 1 / after));
      return {
        rate: figures.rate,
        yardstick,
        ratio: round(figures.rate / yardstick),
        commitsPerDelivery: round(figures.commitsPerDelivery, 4),
        walBytesPerDelivery: Math.round(figures.walBytesPerDelivery),
        claimP99Ms: round(figures.claimP99Ms, 1),
        lost: count - totals.succeeded,
        duplicates: totals.duplicatesAfterSuccess,
      };
    } finally {
      await system.close();
    }
  },
};

const prepared = (): Promise<void> => Promise.resolve();

/** Drains once on an empty system, then again after `prepare`, and compares. */
async function compareToDrain(
  context: BenchContext,
  prepare: (
    system: Awaited<ReturnType<typeof openBenchSystem>>,
    endpoints: Awaited<ReturnType<typeof seedEndpoints>>,
    count: number,
  ) => Promise<void>,
) {
  const { progress, scale } = context;
  const count = Math.round(DELIVERIES * scale);
  const system = await openBenchSystem(context);
  try {
    const endpoints = await seedEndpoints(system, ENDPOINTS);
    // The first drain warms the process up; the second is the base.
    for (const phase of ['warm-up', 'drain']) {
      await seedPending(
        system,
        endpoints,
        Math.round(phase === 'warm-up' ? count / 5 : count),
        PAYLOAD_BYTES,
      );
      if (phase === 'warm-up')
        await measureDrain(system, Math.round(count / 5), 1, prepared, (done) =>
          progress(phase, done, count / 5),
        );
    }
    const base = await measureDrain(system, count, 1, prepared, (done) => progress('drain', done, count));
    await prepare(system, endpoints, count);
    const before = await system.receiverTotals();
    const figures = await measureDrain(system, count, 1, prepared, (done) =>
      progress('measured', done, count),
    );
    const totals = await system.receiverTotals();
    const { rows } = await system.runtime.database.requests.query<{ n: number }>(
      "SELECT count(*)::int AS n FROM relayops.delivery_attempts WHERE outcome = 'success' AND worker <> 'seed'",
    );
    return {
      rate: figures.rate,
      drainRate: base.rate,
      ratioToDrain: round(figures.rate / base.rate),
      claimP99Ms: round(figures.claimP99Ms, 1),
      lost: rows[0]!.n - totals.succeeded,
      delivered: totals.succeeded - before.succeeded,
      duplicates: totals.duplicatesAfterSuccess,
    };
  } finally {
    await system.close();
  }
}

export const backlog: Scenario = {
  name: 'backlog',
  text: 'drain with 1,000,000 waiting',
  targets: [
    { field: 'ratioToDrain', atLeast: 0.9 },
    { field: 'claimP99Ms', atMost: 20 },
  ],
  run: (context) =>
    compareToDrain(context, async (system, endpoints) => {
      const { progress, scale } = context;
      progress('seeding', 0, 1);
      await seedPending(system, endpoints, Math.round(1_000_000 * scale), PAYLOAD_BYTES);
    }),
};

export const aged: Scenario = {
  name: 'aged',
  text: 'drain over 5,000,000 finished deliveries',
  targets: [{ field: 'ratioToDrain', atLeast: 0.9 }],
  run: (context) =>
    compareToDrain(context, async (system, endpoints, count) => {
      const { progress, scale } = context;
      const finished = Math.round(5_000_000 * scale);
      await seedFinished(system, endpoints, finished, (done) => progress('seeding', done, finished));
      await seedPending(system, endpoints, count, PAYLOAD_BYTES);
    }),
};
