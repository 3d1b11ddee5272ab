import { type BenchSystem, openBenchSystem } from '../bench-system.ts';
import { LatencyPeer } from '../latency.ts';
import type { Scenario } from '../scenario.ts';
import { seedEndpoints, seedPending } from '../seed.ts';
import { round } from '../statistics.ts';

const HEALTHY = 48;
const RATE = 500;
const SECONDS = 30;
const WAITING = 100_000;
const FAILING = 2_000;

export const noisy: Scenario = {
  name: 'noisy',
  text: '48 healthy endpoints at 500/s beside one that hangs with 100,000 waiting and one that answers 500; the same without the two',
  targets: [{ field: 'ratio', atMost: 1.5 }],
  rabbitmqTargets: [{ field: 'ratio', atMost: 1.5 }],
  run: async (context) => {
    const { progress, scale } = context;
    const system = await openBenchSystem(context);
    const peer = await LatencyPeer.start();
    try {
      const healthy = await seedEndpoints(system, HEALTHY, { url: peer.url, prefix: 'h' });
      const url = await system.startApi();
      const { worker } = system.runtime;
      worker.start();
      const job = {
        url,
        headers: { authorization: `Bearer ${system.apiKey}`, 'content-type': 'application/json' },
        types: healthy.map(({ type }) => type),
        ratePerSecond: RATE,
        seconds: SECONDS * scale,
        payloadBytes: 1_000,
      };
      const warmUp = { ...job, seconds: 5 * scale };
      progress('warm-up', 0, 3);
      await peer.run(warmUp);
      progress('quiet', 1, 3);
      const quiet = await peer.run(job);
      const hanging = await seedEndpoints(system, 1, { prefix: 'hang', query: '?hang=true' });
      const failing = await seedEndpoints(system, 1, { prefix: 'fail', query: '?status=500' });
      await seedPending(system, hanging, Math.round(WAITING * scale), 1_000);
      await seedPending(system, failing, Math.round(FAILING * scale), 1_000);
      await untilPublished(system);
      progress('beside the two', 2, 3);
      // Making 100,000 deliveries in one statement keeps the database busy for some seconds after it.
      await peer.run(warmUp);
      const beside = await peer.run(job);
      await worker.stop(AbortSignal.timeout(500));
      return {
        healthyP99Ms: round(beside.p99Ms),
        healthyP50Ms: round(beside.p50Ms),
        quietP99Ms: round(quiet.p99Ms),
        quietP50Ms: round(quiet.p50Ms),
        ratio: round(beside.p99Ms / quiet.p99Ms),
        lost: quiet.sent - quiet.received + beside.sent - beside.received,
        duplicates: quiet.repeated + beside.repeated,
      };
    } finally {
      await peer.close();
      await system.close();
    }
  },
};

const NEARLY_NONE = 100;
const LOOK_EVERY_MS = 200;
const PUBLISH_LIMIT_MS = 120_000;

/** On a broker transport what waits is in the queue first: bringing it there is not what is measured. @throws when it takes two minutes */
async function untilPublished({ runtime }: BenchSystem): Promise<void> {
  const deadline = performance.now() + PUBLISH_LIMIT_MS;
  const left = async (): Promise<number> => {
    const { rows } = await runtime.database.requests.query<{ n: number }>(
      'SELECT count(*)::int AS n FROM relayops.outbox_messages',
    );
    return rows[0]!.n;
  };
  while ((await left()) > NEARLY_NONE) {
    if (performance.now() > deadline) throw new Error('stalled: outbox rows are still not published');
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}
