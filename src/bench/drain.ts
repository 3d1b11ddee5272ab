import { createHmac } from 'node:crypto';
import type { Runtime } from '../app/runtime.ts';
import { HttpSender } from '../platform/http/sender.ts';
import { parseAllowList } from '../platform/http/address-guard.ts';
import type { BenchSystem } from './bench-system.ts';
import { rate } from './statistics.ts';

/** What draining some deliveries took. */
export interface DrainFigures {
  readonly rate: number;
  readonly elapsedMs: number;
  readonly commitsPerDelivery: number;
  readonly walBytesPerDelivery: number;
  readonly claimP99Ms: number;
}

const LOOK_EVERY_MS = 5;
const STALL_MS = 60_000;

/** Drains `count` of the pending deliveries with a worker of its own, from its start until their results are committed. */
export async function measureDrain(
  system: BenchSystem,
  count: number,
  onProgress: (done: number) => void,
): Promise<DrainFigures> {
  const before = await databaseCounters(system);
  const started = performance.now();
  const { elapsedMs, claimP99Ms } = await system.withWorker(async (worker) => {
    await untilEnded(worker, count, onProgress);
    return { elapsedMs: performance.now() - started, claimP99Ms: await histogramP99(worker) };
  });
  const after = await databaseCounters(system);
  return {
    rate: rate(count, elapsedMs),
    elapsedMs,
    claimP99Ms,
    commitsPerDelivery: (after.commits - before.commits) / count,
    walBytesPerDelivery: (after.walBytes - before.walBytes) / count,
  };
}

/** Deliveries of a worker that reached a final state. */
export async function countEnded(worker: Runtime): Promise<number> {
  return (await worker.metrics.deliveriesEnded.get()).values.reduce((sum, { value }) => sum + value, 0);
}

/** @throws when nothing ends for a minute */
export async function untilEnded(
  worker: Runtime,
  count: number,
  onProgress: (done: number) => void,
): Promise<void> {
  let last = { ended: 0, atMs: performance.now() };
  for (;;) {
    const ended = await countEnded(worker);
    onProgress(Math.min(ended, count));
    if (ended >= count) return;
    if (ended > last.ended) last = { ended, atMs: performance.now() };
    if (performance.now() - last.atMs > STALL_MS)
      throw new Error(`stalled: ${ended} of ${count} deliveries ended`);
    await new Promise((resolve) => setTimeout(resolve, LOOK_EVERY_MS));
  }
}

async function databaseCounters(system: BenchSystem): Promise<{ commits: number; walBytes: number }> {
  const { rows } = await system.runtime.database.requests.query<{ commits: number; wal: number }>(`
    SELECT (SELECT xact_commit FROM pg_stat_database WHERE datname = current_database())::float8 AS commits,
           (pg_current_wal_lsn() - '0/0')::float8 AS wal`);
  return { commits: rows[0]!.commits, walBytes: rows[0]!.wal };
}

/** Upper bound of the bucket in which the 99th percentile of claims lies, interpolated, in milliseconds. */
async function histogramP99(worker: Runtime): Promise<number> {
  const { values } = await worker.metrics.claimSeconds.get();
  const buckets = values
    .filter((v) => v.metricName?.endsWith('_bucket'))
    .map((v) => ({ le: Number((v.labels as { readonly le?: string | number }).le), count: v.value }));
  const total = buckets.at(-1)?.count ?? 0;
  let lower = { le: 0, count: 0 };
  for (const bucket of buckets) {
    if (bucket.count >= total * 0.99) {
      const share = (total * 0.99 - lower.count) / Math.max(1, bucket.count - lower.count);
      return (lower.le + (Math.min(bucket.le, 60) - lower.le) * share) * 1000;
    }
    lower = bucket;
  }
  return Number.NaN;
}

const YARDSTICK_SOCKETS = 64;

/** The yardstick: our HTTP client with an HMAC over each body, to the same receiver, and nothing else. Requests per second. */
export async function senderYardstick(
  system: BenchSystem,
  requests: number,
  payloadBytes: number,
): Promise<number> {
  const sender = new HttpSender({
    allow: parseAllowList(['127.0.0.1/32']),
    connectTimeoutMs: 5_000,
    socketsPerOrigin: YARDSTICK_SOCKETS,
    maxResponseBytes: 65_536,
    http2: true,
  });
  const body = Buffer.from(JSON.stringify({ data: 'x'.repeat(payloadBytes - 11) }));
  const url = `${system.receiverUrl}/r/yardstick`;
  let sent = 0;
  const started = performance.now();
  await Promise.all(
    Array.from({ length: YARDSTICK_SOCKETS }, async () => {
      while (sent < requests) {
        const id = `yardstick-${sent++}`;
        const signature = createHmac('sha256', 'k'.repeat(32))
          .update(`${id}.0.`)
          .update(body)
          .digest('base64');
        const headers = {
          'content-type': 'application/json',
          'webhook-id': id,
          'webhook-timestamp': '0',
          'webhook-signature': `v1,${signature}`,
          'x-relayops-delivery-id': id,
        };
        const outcome = await sender.send({ url, headers, body, timeoutMs: 10_000 });
        if (outcome.kind !== 'response' || outcome.status !== 200)
          throw new Error('the yardstick request failed');
      }
    }),
  );
  const elapsedMs = performance.now() - started;
  await sender.close();
  return rate(requests, elapsedMs);
}
