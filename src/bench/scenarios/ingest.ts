import { startBareRoute } from '../bare-route.ts';
import { type BenchSystem, openBenchSystem } from '../bench-system.ts';
import { inTurns } from '../in-turns.ts';
import { Load } from '../load.ts';
import type { LoadResult } from '../load-client.ts';
import type { Scenario } from '../scenario.ts';
import { seedEndpoints } from '../seed.ts';
import { mean, rate, round } from '../statistics.ts';

const CONNECTIONS = 64;
const EVENTS = 60_000;
const BATCH_EVENTS = 200_000;
const BATCH = 100;
const PAYLOAD = JSON.stringify({ data: 'x'.repeat(1_000) });

export const ingest: Scenario = {
  name: 'ingest',
  text: '64 connections, one event a request, answered after the commit; with one endpoint, and without any',
  targets: [{ field: 'ratio', atLeast: 0.5 }],
  rabbitmqTargets: [{ field: 'ratio', atLeast: 0.5 }],
  run: async (context) => {
    const { progress, scale } = context;
    const requests = Math.round(EVENTS * scale);
    const system = await openBenchSystem(context);
    const load = await Load.start();
    try {
      await seedEndpoints(system, 1);
      const url = await system.startApi();
      const bare = await startBareRoute(system, async () => undefined);
      const job = (base: string, type: string, count: number) => ({
        url: `${base}/v1/events`,
        headers: { authorization: `Bearer ${system.apiKey}`, 'content-type': 'application/json' },
        bodies: [`{"type":"${type}","payload":${PAYLOAD}}`],
        connections: CONNECTIONS,
        requests: count,
        expectStatus: 202,
      });
      const warmUp = Math.round(requests / 6);
      progress('warm-up', 0, 3);
      await load.run(job(bare.url, 'bench.e0', warmUp));
      await load.run(job(url, 'bench.e0', warmUp));
      progress('without endpoint', 1, 3);
      const without = await load.run(job(url, 'bench.nobody', requests));
      progress('with one endpoint', 2, 3);
      const latencies: LoadResult[] = [];
      const { yardstickMs, measuredMs } = await inTurns(requests, {
        yardstick: (count) => load.run(job(bare.url, 'bench.e0', count)),
        measured: async (count) => latencies.push(await load.run(job(url, 'bench.e0', count))),
      });
      await bare.close();
      const yardstick = rate(requests, yardstickMs);
      const measuredRate = rate(requests, measuredMs);
      return {
        rate: measuredRate,
        rateWithoutEndpoint: rate(requests, without.elapsedMs),
        p50Ms: round(mean(latencies.map(({ p50Ms }) => p50Ms))),
        p99Ms: round(mean(latencies.map(({ p99Ms }) => p99Ms))),
        yardstick,
        ratio: round(measuredRate / yardstick),
        ...(await countStored(system, requests * 2 + warmUp)),
      };
    } finally {
      await load.close();
      await system.close();
    }
  },
};

export const ingestBatch: Scenario = {
  name: 'ingest-batch',
  text: '100 events a request, one endpoint',
  targets: [{ field: 'rate', atLeast: 25_000 }],
  run: async (context) => {
    const { progress, scale } = context;
    const requests = Math.round((BATCH_EVENTS * scale) / BATCH);
    const system = await openBenchSystem(context, {
      'ingest.ratePerSecond': 1_000_000,
      'ingest.rateBurst': 1_000_000,
    });
    const load = await Load.start();
    try {
      await seedEndpoints(system, 1);
      const url = await system.startApi();
      const event = `{"type":"bench.e0","payload":${PAYLOAD}}`;
      const job = {
        url: `${url}/v1/events/batch`,
        headers: { authorization: `Bearer ${system.apiKey}`, 'content-type': 'application/json' },
        bodies: [`{"events":[${Array.from({ length: BATCH }, () => event).join(',')}]}`],
        connections: 8,
        requests,
        expectStatus: 202,
      };
      progress('warm-up', 0, 2);
      const warmUp = Math.round(requests / 10);
      await load.run({ ...job, requests: warmUp });
      progress('batches', 1, 2);
      const measured = await load.run(job);
      return {
        rate: rate(requests * BATCH, measured.elapsedMs),
        p50Ms: round(measured.p50Ms),
        p99Ms: round(measured.p99Ms),
        ...(await countStored(system, (requests + warmUp) * BATCH)),
      };
    } finally {
      await load.close();
      await system.close();
    }
  },
};

/** Everything that was answered 202 must be stored, once. */
async function countStored(
  system: BenchSystem,
  answered: number,
): Promise<{ lost: number; duplicates: number }> {
  const { rows } = await system.runtime.database.requests.query<{ n: number }>(
    'SELECT count(*)::int AS n FROM relayops.events',
  );
  const stored = rows[0]!.n;
  return { lost: Math.max(0, answered - stored), duplicates: Math.max(0, stored - answered) };
}
