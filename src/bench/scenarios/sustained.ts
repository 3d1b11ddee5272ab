import { createHmac } from 'node:crypto';
import type { Config } from '../../config/index.ts';
import { startBareRoute } from '../bare-route.ts';
import { openBenchSystem } from '../bench-system.ts';
import { bothWays } from '../both-ways.ts';
import { untilEnded, yardstickSender } from '../drain.ts';
import { inTurns } from '../in-turns.ts';
import { Load } from '../load.ts';
import type { BenchContext, Scenario, ScenarioOutcome } from '../scenario.ts';
import { seedEndpoints } from '../seed.ts';
import { rate, round } from '../statistics.ts';

const EVENTS = 30_000;
const CONNECTIONS = 64;
const ENDPOINTS = 10;
const PAYLOAD = JSON.stringify({ data: 'x'.repeat(1_000) });

export const sustained: Scenario = {
  name: 'sustained',
  text: '64 connections post single events as fast as they are answered while delivery runs, until the last receipt',
  targets: [{ field: 'ratio', atLeast: 0.5 }],
  rabbitmqTargets: [{ field: 'ratio', atLeast: 0.5 }],
  run: (context) =>
    bothWays(context, ['rate', 'yardstick', 'ratio'], (overrides) => measure(context, overrides)),
};

async function measure(context: BenchContext, overrides: Partial<Config>): Promise<ScenarioOutcome> {
  const { progress, scale } = context;
  const requests = Math.round(EVENTS * scale);
  const system = await openBenchSystem(context, overrides);
  const load = await Load.start();
  const sender = yardstickSender(CONNECTIONS);
  try {
    const endpoints = await seedEndpoints(system, ENDPOINTS);
    const url = await system.startApi();
    const bare = await startBareRoute(system, async (eventId, payload) => {
      const signature = createHmac('sha256', 'k'.repeat(32))
        .update(`${eventId}.0.`)
        .update(payload)
        .digest('base64');
      const headers = {
        'content-type': 'application/json',
        'webhook-id': eventId,
        'webhook-timestamp': '0',
        'webhook-signature': `v1,${signature}`,
        'x-relayops-delivery-id': eventId,
      };
      await sender.send({
        url: `${system.receiverUrl}/r/yardstick`,
        headers,
        body: payload,
        timeoutMs: 10_000,
        share: 'yardstick',
      });
    });
    const job = (base: string, count: number) => ({
      url: `${base}/v1/events`,
      headers: { authorization: `Bearer ${system.apiKey}`, 'content-type': 'application/json' },
      bodies: endpoints.map(({ type }) => `{"type":"${type}","payload":${PAYLOAD}}`),
      connections: CONNECTIONS,
      requests: count,
      expectStatus: 202,
    });
    // V8 compiles what is hot after about 10,000 events.
    const warmUp = Math.round(requests / 3);
    progress('warm-up', 0, 2);
    await load.run(job(bare.url, warmUp));
    await system.resetReceivers();
    // Acceptance and delivery in one process, as with role `all`.
    const { worker } = system.runtime;
    worker.start();
    progress('warm-up', 1, 2);
    await load.run(job(url, warmUp));
    await untilEnded(system.runtime, warmUp, () => undefined);
    let sent = 0;
    let acceptMs = 0;
    const { yardstickMs, measuredMs } = await inTurns(requests, {
      yardstick: (count) => load.run(job(bare.url, count)),
      measured: async (count) => {
        acceptMs += (await load.run(job(url, count))).elapsedMs;
        await untilEnded(system.runtime, warmUp + sent + count, (done) =>
          progress('sustained', done - warmUp, requests),
        );
        sent += count;
      },
    });
    await bare.close();
    await worker.stop(AbortSignal.timeout(10_000));
    const totals = await system.receiverTotals();
    const measured = rate(requests, measuredMs);
    const yardstick = rate(requests, yardstickMs);
    return {
      rate: measured,
      acceptRate: rate(requests, acceptMs),
      yardstick,
      ratio: round(measured / yardstick),
      // What the yardstick sent is in the totals too.
      lost: warmUp + 2 * requests - totals.succeeded,
      duplicates: totals.duplicatesAfterSuccess,
    };
  } finally {
    await load.close();
    await sender.close();
    await system.close();
  }
}
