import pg from 'pg';
import { openBenchSystem } from '../bench-system.ts';
import { measureDrain } from '../drain.ts';
import type { Scenario } from '../scenario.ts';
import { seedEndpoints } from '../seed.ts';
import { rate, round } from '../statistics.ts';
import { ENDPOINTS, PAYLOAD_BYTES } from './drain.ts';

const ROUND = 50_000;
const HELD_MS = 300_000;
const SENDERS = 64;

export const heldXmin: Scenario = {
  name: 'held-xmin',
  text: 'ingest and drain in turn while another session holds a snapshot for 5 minutes; figures of the last minute',
  targets: [{ field: 'ratioToDrain', atLeast: 0.8 }],
  run: async ({ progress, scale }) => {
    const count = Math.round(ROUND * scale);
    const heldMs = HELD_MS * scale;
    const system = await openBenchSystem();
    try {
      const endpoints = await seedEndpoints(system, ENDPOINTS);
      const payload = Buffer.from(JSON.stringify({ data: 'x'.repeat(PAYLOAD_BYTES) }));
      const ingest = async (): Promise<number> => {
        let sent = 0;
        const started = performance.now();
        await Promise.all(
          Array.from({ length: SENDERS }, async () => {
            while (sent < count) {
              const type = endpoints[sent++ % endpoints.length]!.type;
              const result = await system.runtime.acceptor.accept({
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
        return rate(count, performance.now() - started);
      };
      // Once to warm up, once for the base.
      let ingestBase = 0;
      let drainBase = 0;
      let rounds = 0;
      for (; rounds < 2; rounds++) {
        ingestBase = await ingest();
        drainBase = (await measureDrain(system, count, (done) => progress('base', done, count))).rate;
      }
      const holder = new pg.Client({ connectionString: system.runtime.config['database.url'] });
      await holder.connect();
      await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ');
      await holder.query('SELECT count(*) FROM relayops.delivery_work');
      const started = performance.now();
      const measured: { atMs: number; ingest: number; drain: number }[] = [];
      while (performance.now() - started < heldMs) {
        const ingested = await ingest();
        const drained = await measureDrain(system, count, () =>
          progress('held', Math.round(performance.now() - started), heldMs),
        );
        measured.push({ atMs: performance.now() - started, ingest: ingested, drain: drained.rate });
        rounds += 1;
      }
      await holder.query('COMMIT');
      await holder.end();
      const last = measured.filter((round) => round.atMs >= heldMs * 0.8);
      const mean = (pick: (entry: (typeof measured)[number]) => number): number =>
        Math.round(last.reduce((sum, entry) => sum + pick(entry), 0) / last.length);
      const totals = await system.receiverTotals();
      const drainRate = mean((entry) => entry.drain);
      const ingestRate = mean((entry) => entry.ingest);
      return {
        rate: drainRate,
        drainRate: drainBase,
        ratioToDrain: round(drainRate / drainBase),
        ingestRate,
        ingestRatio: round(ingestRate / ingestBase),
        heldDeliveries: measured.length * count,
        lost: rounds * count - totals.succeeded,
        duplicates: totals.duplicatesAfterSuccess,
      };
    } finally {
      await system.close();
    }
  },
};
