import type { Config } from '../../config/index.ts';
import { openBenchSystem } from '../bench-system.ts';
import { bothWays } from '../both-ways.ts';
import { LatencyPeer } from '../latency.ts';
import type { BenchContext, Scenario, ScenarioOutcome } from '../scenario.ts';
import { seedEndpoints } from '../seed.ts';
import { round } from '../statistics.ts';

const ENDPOINTS = 10;
const PAYLOAD_BYTES = 1_000;

export const latency: Scenario = {
  name: 'latency',
  text: '200 events/s for 30 s, then 2,000/s for 15 s; from the moment an event is sent to its arrival at the receiver',
  targets: [
    { field: 'p50Ms', atMost: 3 },
    { field: 'p99Ms', atMost: 8 },
    { field: 'p50MsAt2000', atMost: 6 },
    { field: 'p99MsAt2000', atMost: 30 },
  ],
  rabbitmqTargets: [
    { field: 'p50Ms', atMost: 6 },
    { field: 'p99Ms', atMost: 16 },
    { field: 'p50MsAt2000', atMost: 12 },
    { field: 'p99MsAt2000', atMost: 60 },
  ],
  run: (context) =>
    bothWays(context, ['p50Ms', 'p99Ms', 'p50MsAt2000', 'p99MsAt2000'], (overrides) =>
      measure(context, overrides),
    ),
};

async function measure(context: BenchContext, overrides: Partial<Config>): Promise<ScenarioOutcome> {
  const { progress, scale } = context;
  const system = await openBenchSystem(context, overrides);
  const peer = await LatencyPeer.start();
  try {
    const endpoints = await seedEndpoints(system, ENDPOINTS, { url: peer.url });
    const url = await system.startApi();
    const { worker } = system.runtime;
    worker.start();
    const job = (target: string | null, ratePerSecond: number, seconds: number) => ({
      url: target,
      headers: { authorization: `Bearer ${system.apiKey}`, 'content-type': 'application/json' },
      types: endpoints.map(({ type }) => type),
      ratePerSecond,
      seconds: seconds * scale,
      payloadBytes: PAYLOAD_BYTES,
    });
    progress('yardstick', 0, 4);
    const bare = await peer.run(job(null, 200, 5));
    // V8 compiles what is hot after about 10,000 events, for most of a second and on the cores that the run needs.
    await peer.run(job(url, 1_000, 10));
    progress('200/s', 1, 4);
    const slow = await peer.run(job(url, 200, 30));
    progress('2,000/s', 2, 4);
    const fast = await peer.run(job(url, 2_000, 15));
    await worker.stop(AbortSignal.timeout(10_000));
    return {
      p50Ms: round(slow.p50Ms),
      p99Ms: round(slow.p99Ms),
      p50MsAt2000: round(fast.p50Ms),
      p99MsAt2000: round(fast.p99Ms),
      yardstickP50Ms: round(bare.p50Ms),
      yardstickP99Ms: round(bare.p99Ms),
      lost: slow.sent - slow.received + fast.sent - fast.received,
      duplicates: slow.repeated + fast.repeated,
    };
  } finally {
    await peer.close();
    await system.close();
  }
}
