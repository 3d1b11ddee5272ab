import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import { type DeliveryId, type EndpointId, type EventId, newId, type TenantId } from '../shared/ids.ts';
import { claimWork, type ClaimedRow } from './claim.sql.ts';
import { finishWork } from './finish.sql.ts';

const ROWS = 20_000;
const CLAIMED = 50;

let test: TestDatabase;
beforeAll(async () => void (test = await testDatabase()));
afterAll(() => test.close());

const tenantId = newId<TenantId>(Date.now());
const endpointId = newId<EndpointId>(Date.now());

describe('plans made on an empty, analysed table', () => {
  it('still read only the rows that a claim and its results concern once the table is full', async () => {
    // One connection: its generic plans are made here, while there is nothing.
    const client = await test.database.delivery.connect();
    try {
      await client.query('VACUUM ANALYZE relayops.delivery_work');
      for (const table of ['deliveries', 'events', 'delivery_attempts'])
        await client.query(`VACUUM ANALYZE relayops.${table}`);
      const claim = (): Promise<ClaimedRow[]> =>
        claimWork(client, [{ endpointId, slots: CLAIMED, floorMs: 0 }], { ms: 60_000, worker: 'w' }, 1_000);
      const finish = (
        rows: readonly Pick<ClaimedRow, 'delivery_id' | 'event_id' | 'lease_token' | 'attempt_no'>[],
      ) =>
        finishWork(
          client,
          'w',
          rows.map((row) => ({
            deliveryId: row.delivery_id,
            eventId: row.event_id,
            tenantId,
            endpointId,
            leaseToken: row.lease_token,
            attemptNumber: row.attempt_no,
            attempt: null,
            next: { kind: 'ended', state: 'cancelled', reason: null },
          })),
          { fromMs: 0, newId: () => newId<DeliveryId>(1) },
        );
      expect(await claim()).toHaveLength(0);
      await finish([
        { delivery_id: newId<DeliveryId>(1), event_id: newId<EventId>(1), lease_token: '1', attempt_no: 1 },
      ]);
      await fill();
      const before = await reads();
      const claimed = await claim();
      expect(claimed).toHaveLength(CLAIMED);
      await finish(claimed);
      await client.query('SELECT pg_stat_force_next_flush()');
      await client.query('SELECT 1');
      const after = await reads();
      expect(after.work - before.work).toBeLessThan(CLAIMED * 10);
      expect(after.facts - before.facts).toBeLessThan(CLAIMED * 10);
      expect(after.events - before.events).toBeLessThan(CLAIMED * 10);
    } finally {
      client.release();
    }
  });
});

async function fill(): Promise<void> {
  const ids = `(SELECT i, (lpad(to_hex(floor(extract(epoch FROM now()) * 1000)::bigint), 12, '0') || '7000' || '8' || lpad(to_hex(i), 15, '0'))::uuid AS id
                FROM generate_series(1, ${ROWS}) AS i) g`;
  await test.database.requests.query(
    `INSERT INTO relayops.deliveries (tenant_id, event_id, endpoint_id, delivery_id, event_type) SELECT $1, id, $2, id, 't' FROM ${ids}`,
    [tenantId, endpointId],
  );
  await test.database.requests.query(
    `INSERT INTO relayops.events (tenant_id, event_id, type, content_type, payload, format, delivery_count) SELECT $1, id, 't', 'x', '', 'test', 1 FROM ${ids}`,
    [tenantId],
  );
  await test.database.requests.query(
    `INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at) SELECT id, id, $1, $2, now() FROM ${ids}`,
    [tenantId, endpointId],
  );
}

/** Index entries read so far, by table. */
async function reads(): Promise<{ work: number; facts: number; events: number }> {
  const { rows } = await test.database.requests.query<{ work: number; facts: number; events: number }>(`
    SELECT coalesce(sum(idx_tup_read) FILTER (WHERE relname = 'delivery_work'), 0)::float8 AS work,
           coalesce(sum(idx_tup_read) FILTER (WHERE relname LIKE 'deliveries%'), 0)::float8 AS facts,
           coalesce(sum(idx_tup_read) FILTER (WHERE relname LIKE 'events%'), 0)::float8 AS events
    FROM pg_stat_user_indexes`);
  return rows[0]!;
}
