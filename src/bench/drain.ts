import { createHmac } from 'node:crypto';
import type { Runtime } from '../app/runtime.ts';
import { NameResolver } from '../platform/dns/resolver.ts';
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
const LOOK_AT_TABLE_MS = 20;
const STALL_MS = 60_000;

/**
 * Drains `count` pending deliveries with workers of its own, from their start until the results are committed. On a broker transport the outbox
 * rows are published within the measured time.
 * @param workers 1: in this process; more: processes of their own, which stand still while `prepare` makes the deliveries
 */
export async function measureDrain(
  system: BenchSystem,
  count: number,
  workers: number,
  prepare: () => Promise<void>,
  onProgress: (done: number) => void,
): Promise<DrainFigures> {
  if (workers > 1) return drainBy(system, count, workers, prepare, onProgress);
  await prepare();
  const before = await databaseCounters(system);
  const started = performance.now();
  const { elapsedMs, claimP99Ms } = await system.withWorker(async (worker) => {
    await system.startPublisher();
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

async function drainBy(
  system: BenchSystem,
  count: number,
  workers: number,
  prepare: () => Promise<void>,
  onProgress: (done: number) => void,
): Promise<DrainFigures> {
  const processes = await system.startWorkers(workers);
  try {
    processes.hold();
    await prepare();
    const before = await databaseCounters(system);
    const started = performance.now();
    processes.letGo();
    await system.startPublisher();
    await untilNoneOpen(system, count, onProgress);
    const elapsedMs = performance.now() - started;
    const after = await databaseCounters(system);
    return {
      rate: rate(count, elapsedMs),
      elapsedMs,
      claimP99Ms: Number.NaN,
      commitsPerDelivery: (after.commits - before.commits) / count,
      walBytesPerDelivery: (after.walBytes - before.walBytes) / count,
    };
  } finally {
    processes.letGo();
    await processes.stop();
  }
}

/** Looks at the work table, which costs little; seldom enough to cost the workers nothing. */
async function untilNoneOpen(
  system: BenchSystem,
  count: number,
  onProgress: (done: number) => void,
): Promise<void> {
  const deadline = performance.now() + STALL_MS;
  for (;;) {
    const { rows } = await system.runtime.database.requests.query<{ open: boolean }>(
      'SELECT EXISTS (SELECT 1 FROM relayops.delivery_work) AS open',
    );
    if (!rows[0]!.open) return onProgress(count);
    if (performance.now() > deadline) throw new Error('stalled: deliveries are still open');
    await new Promise((resolve) => setTimeout(resolve, LOOK_AT_TABLE_MS));
  }
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

/** Our HTTP client alone. */
export function yardstickSender(sockets: number): HttpSender {
  const names = new NameResolver({ servers: [], timeoutMs: 5_000, maxLookups: 16, maxCachedNames: 16 });
  return new HttpSender({
    allow: parseAllowList(['127.0.0.1/32']),
    connectTimeoutMs: 5_000,
    socketsPerOrigin: sockets,
    maxResponseBytes: 65_536,
    http2: true,
    resolve: names.resolve,
  });
}

/** The yardstick: our HTTP client with an HMAC over each body, to the same receiver, and nothing else. Requests per second. */
export async function senderYardstick(
  system: BenchSystem,
  requests: number,
  payloadBytes: number,
): Promise<number> {
  const sender = yardstickSender(YARDSTICK_SOCKETS);
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
        const outcome = await sender.send({ url, headers, body, timeoutMs: 10_000, share: 'yardstick' });
        if (outcome.kind !== 'response' || outcome.status !== 200)
          throw new Error('the yardstick request failed');
      }
    }),
  );
  const elapsedMs = performance.now() - started;
  await sender.close();
  return rate(requests, elapsedMs);
}
