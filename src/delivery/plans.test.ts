import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import { type DeliveryId, type EndpointId, type EventId, newId, type TenantId } from '../shared/ids.ts';
import { observeHealth } from '../endpoints/health.sql.ts';
import { claimMessages, pruneMessages, removeMessages } from '../outbox/outbox.sql.ts';
import { claimDeliveries, claimWork, type ClaimedRow, findOpen } from './claim.sql.ts';
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

  it('so do claims by name, the outbox and endpoint health', async () => {
    const client = await test.database.delivery.connect();
    try {
      await client.query(
        'TRUNCATE relayops.delivery_work, relayops.outbox_messages, relayops.endpoint_health',
      );
      for (const table of ['delivery_work', 'outbox_messages', 'endpoint_health'])
        await client.query(`VACUUM ANALYZE relayops.${table}`);
      const lease = { ms: 60_000, worker: 'w' };
      const all = async (named: readonly DeliveryId[], health: readonly EndpointId[]): Promise<number> => {
        const wanted = named.map((deliveryId) => ({ deliveryId, endpointId }));
        const claimed = await claimDeliveries(client, wanted, lease, 1_000);
        await findOpen(client, named);
        const from = { floorId: named[0] ?? NOBODY, limit: CLAIMED };
        const messages = await claimMessages(client, from, { publisher: 'p', ms: 60_000 });
        await removeMessages(
          client,
          messages.map((message) => message.outbox_id),
        );
        await pruneMessages(client, named[0] ?? NOBODY, CLAIMED);
        const observed = health.map((id) => ({
          tenantId,
          endpointId: id,
          succeeded: false,
          failures: 1,
          outages: 1,
        }));
        await observeHealth(client, observed, {
          failuresToOpen: 2,
          minFailingMs: 0,
          openMs: 1_000,
          openCapMs: 1_000,
          disableAfterS: 1_000,
        });
        return claimed.length;
      };
      expect(await all([NOBODY], [])).toBe(0);
      await fillMore();
      const { rows } = await client.query<{ id: DeliveryId }>(
        'SELECT delivery_id AS id FROM relayops.delivery_work ORDER BY 1 OFFSET $1 LIMIT $2',
        [ROWS / 2, CLAIMED],
      );
      const endpoints = await client.query<{ id: EndpointId }>(
        'SELECT endpoint_id AS id FROM relayops.endpoint_health ORDER BY 1 LIMIT $1',
        [CLAIMED],
      );
      await client.query('SELECT pg_stat_force_next_flush()');
      await client.query('SELECT 1');
      const before = await moreReads();
      const claimed = await all(
        rows.map((row) => row.id),
        endpoints.rows.map((row) => row.id),
      );
      expect(claimed).toBe(CLAIMED);
      await client.query('SELECT pg_stat_force_next_flush()');
      await client.query('SELECT 1');
      const after = await moreReads();
      expect(after.work - before.work).toBeLessThan(CLAIMED * 10);
      expect(after.outbox - before.outbox).toBeLessThan(CLAIMED * 10);
      expect(after.health - before.health).toBeLessThan(CLAIMED * 10);
      expect(after.endpoints - before.endpoints).toBeLessThan(CLAIMED * 10);
    } finally {
      client.release();
    }
  });
});

const NOBODY = newId<DeliveryId>(1);

async function fillMore(): Promise<void> {
  const ids = `(SELECT i, (lpad(to_hex(i), 12, '0') || '7000' || '8' || lpad(to_hex(i), 15, '0'))::uuid AS id
                FROM generate_series(1, ${ROWS}) AS i) g`;
  const db = await test.database.requests.connect();
  await db.query("INSERT INTO relayops.tenants (tenant_id, name) VALUES ($1, 'plans')", [tenantId]);
  await db.query(
    `INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url) SELECT id, $1, 'http://x/' FROM ${ids}`,
    [tenantId],
  );
  await db.query(
    `INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at) SELECT id, id, $1, $2, now() FROM ${ids}`,
    [tenantId, endpointId],
  );
  await db.query(
    `INSERT INTO relayops.outbox_messages (outbox_id, delivery_id, endpoint_id) SELECT id, id, $1 FROM ${ids}`,
    [endpointId],
  );
  await db.query(
    `INSERT INTO relayops.endpoint_health (endpoint_id, failures, outages, failing_since) SELECT id, 1, 1, now() FROM ${ids}`,
  );
  // What this connection read belongs to the time before the measurement.
  await db.query('SELECT pg_stat_force_next_flush()');
  await db.query('SELECT 1');
  db.release();
}

async function moreReads(): Promise<{ work: number; outbox: number; health: number; endpoints: number }> {
  const sum = (table: string, name: string): string =>
    `coalesce(sum(idx_tup_read) FILTER (WHERE relname = '${table}'), 0)::float8 AS ${name}`;
  const { rows } = await test.database.requests.query<Awaited<ReturnType<typeof moreReads>>>(
    `SELECT ${sum('delivery_work', 'work')}, ${sum('outbox_messages', 'outbox')}, ${sum('endpoint_health', 'health')},
            ${sum('webhook_endpoints', 'endpoints')} FROM pg_stat_user_indexes`,
  );
  return rows[0]!;
}

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
