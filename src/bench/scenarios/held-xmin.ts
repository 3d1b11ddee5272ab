import pg from 'pg';
import type { Runtime } from '../../app/runtime.ts';
import { type BenchSystem, openBenchSystem } from '../bench-system.ts';
import { countEnded, untilEnded } from '../drain.ts';
import type { Scenario } from '../scenario.ts';
import { type BenchEndpoint, seedEndpoints } from '../seed.ts';
import { rate, round } from '../statistics.ts';
import { ENDPOINTS, PAYLOAD_BYTES } from './drain.ts';

const ROUND = 50_000;
const HELD_MS = 300_000;
const SENDERS = 64;
const WARM_UP_ROUNDS = 3;

interface Round {
  readonly atMs: number;
  readonly ingest: number;
  readonly drain: number;
}

export const heldXmin: Scenario = {
  name: 'held-xmin',
  text: 'ingest and drain in turn, in one process, while another session holds a snapshot for 5 minutes; figures of the last fifth',
  targets: [{ field: 'ratioToDrain', atLeast: 0.8 }],
  run: async (context) => {
    const { progress, scale } = context;
    const count = Math.round(ROUND * scale);
    const heldMs = HELD_MS * scale;
    const system = await openBenchSystem(context);
    try {
      const endpoints = await seedEndpoints(system, ENDPOINTS);
      return await system.withWorker(async (worker) => {
        const oneRound = (phase: string): Promise<Round> =>
          ingestThenDrain(system, worker, endpoints, count, (done) => progress(phase, done, count));
        let base: Round | undefined;
        for (let i = 0; i < WARM_UP_ROUNDS; i++) base = await oneRound('base');
        const release = await holdSnapshot(system.runtime.config['database.url']);
        const started = performance.now();
        const held: Round[] = [];
        while (performance.now() - started < heldMs)
          held.push(await oneRound(`held, round ${held.length + 1}`));
        await release();
        const last = held.filter((entry) => entry.atMs - started >= heldMs * 0.8);
        const mean = (pick: (entry: Round) => number): number =>
          Math.round(last.reduce((sum, entry) => sum + pick(entry), 0) / last.length);
        const totals = await system.receiverTotals();
        const drainRate = mean((entry) => entry.drain);
        const ingestRate = mean((entry) => entry.ingest);
        return {
          rate: drainRate,
          drainRate: base!.drain,
          ratioToDrain: round(drainRate / base!.drain),
          ingestRate,
          ingestRatio: round(ingestRate / base!.ingest),
          heldDeliveries: held.length * count,
          lost: (WARM_UP_ROUNDS + held.length) * count - totals.succeeded,
          duplicates: totals.duplicatesAfterSuccess,
        };
      });
    } finally {
      await system.close();
    }
  },
};

/** Fills up while the endpoints are paused, resumes them, and waits until all is delivered. */
async function ingestThenDrain(
  system: BenchSystem,
  worker: Runtime,
  endpoints: readonly BenchEndpoint[],
  count: number,
  onProgress: (done: number) => void,
): Promise<Round> {
  await setState(system, worker, endpoints, 'paused');
  const before = await countEnded(worker);
  const payload = Buffer.from(JSON.stringify({ data: 'x'.repeat(PAYLOAD_BYTES) }));
  const ingestStarted = performance.now();
  let sent = 0;
  await Promise.all(
    Array.from({ length: SENDERS }, async () => {
      while (sent < count) {
        const { type } = endpoints[sent++ % endpoints.length]!;
        const result = await worker.acceptor.accept({
          tenantId: system.tenantId,
          type,
          contentType: 'application/json',
          payload,
          idempotencyKey: null,
          format: 'native',
          attributes: null,
          traceparent: null,
          occurredAt: null,
        });
        if (!result.ok) throw result.error;
      }
    }),
  );
  const ingest = rate(count, performance.now() - ingestStarted);
  const drainStarted = performance.now();
  await setState(system, worker, endpoints, 'active');
  worker.transport.announce(endpoints.map(({ endpointId }) => ({ endpointId, inMs: 0 })));
  await untilEnded(worker, before + count, (ended) => onProgress(ended - before));
  return { atMs: performance.now(), ingest, drain: rate(count, performance.now() - drainStarted) };
}

async function setState(
  system: BenchSystem,
  worker: Runtime,
  endpoints: readonly BenchEndpoint[],
  state: 'active' | 'paused',
): Promise<void> {
  await system.runtime.database.requests.query(
    'UPDATE relayops.webhook_endpoints SET state = $1, version = version + 1',
    [state],
  );
  for (const { endpointId } of endpoints) worker.directory.forgetTarget(endpointId);
}

/** @returns how to end it */
async function holdSnapshot(url: string): Promise<() => Promise<void>> {
  const holder = new pg.Client({ connectionString: url });
  await holder.connect();
  await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
  await holder.query('SELECT count(*) FROM relayops.delivery_work');
  return async () => {
    await holder.query('COMMIT');
    await holder.end();
  };
}
