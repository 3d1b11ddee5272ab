import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type DeliveryId, type EventId, newId } from '../../src/shared/ids.ts';
import { Relay } from '../support/relay.ts';

const DAY_MS = 86_400_000;

let relay: Relay;
let endpointId: string;

beforeEach(async () => {
  // Without a janitor of its own: the rounds here are the only ones.
  relay = await Relay.start({ role: 'api', 'retention.days': 30, 'retention.batch': 3 });
  await relay.sql(`SELECT relayops.ensure_partitions(now() - interval '60 days', now())`);
  ({ endpointId } = await relay.api.endpoint(relay.receiver('old').url, 'old.*', { paused: true }));
});
afterEach(() => relay.close());

const janitor = () => relay.process.runtime.janitor.round();

/** An event of so many days ago with one delivery and its attempt, as acceptance and delivery would have left them. */
async function past(days: number, state: 'open' | 'succeeded' | 'dead'): Promise<string> {
  const ms = Date.now() - days * DAY_MS;
  const eventId = newId<EventId>(ms);
  const deliveryId = newId<DeliveryId>(ms);
  const { tenantId } = relay;
  await relay.sql(
    `INSERT INTO relayops.events (tenant_id, event_id, type, content_type, payload, format, delivery_count)
     VALUES ($1, $2, 'old.one', 'application/json', '1', 'native', 1)`,
    tenantId,
    eventId,
  );
  await relay.sql(
    `INSERT INTO relayops.deliveries (tenant_id, event_id, endpoint_id, delivery_id, event_type, state, finished_at, unsuccessful_at)
     VALUES ($1, $2, $3, $4, 'old.one', $5, CASE WHEN $5 <> 'open' THEN now() END, CASE WHEN $5 = 'dead' THEN now() END)`,
    tenantId,
    eventId,
    endpointId,
    deliveryId,
    state,
  );
  await relay.sql(
    `INSERT INTO relayops.delivery_attempts (event_id, delivery_id, attempt_number, tenant_id, endpoint_id, outcome, worker)
     VALUES ($1, $2, 1, $3, $4, 'success', 'past')`,
    eventId,
    deliveryId,
    tenantId,
    endpointId,
  );
  if (state === 'open')
    await relay.sql(
      `INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at, attempt_no)
       VALUES ($1, $2, $3, $4, now(), 1)`,
      deliveryId,
      eventId,
      tenantId,
      endpointId,
    );
  return eventId;
}

const kept = async (): Promise<Record<string, string[]>> => {
  const idsOf = async (table: string) =>
    (await relay.sql<{ event_id: string }>(`SELECT event_id FROM relayops.${table} ORDER BY 1`)).map(
      (row) => row.event_id,
    );
  return {
    events: await idsOf('events'),
    deliveries: await idsOf('deliveries'),
    attempts: await idsOf('delivery_attempts'),
  };
};
const alike = (...ids: string[]) => ({ events: ids.sort(), deliveries: ids, attempts: ids });

const weeks = async (): Promise<string[]> =>
  (
    await relay.sql<{ name: string }>(
      `SELECT c.relname AS name FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
       WHERE i.inhparent = 'relayops.events'::regclass ORDER BY 1`,
    )
  ).map(({ name }) => name);

describe('retention (SPEC E3)', () => {
  it('drops weeks in which all is finished, and keeps what is young', async () => {
    for (let n = 0; n < 5; n += 1) await past(45, n % 2 === 0 ? 'succeeded' : 'dead');
    const young = await past(20, 'succeeded');
    const before = await weeks();
    await janitor();
    expect(await kept()).toEqual(alike(young));
    // A week that somebody (autovacuum) is at is left for the next round.
    const isDone = (after: readonly string[]) => before.slice(-after.length).join() === after.join();
    for (let round = 0; round < 20 && !isDone(await weeks()); round += 1) await janitor();
    const after = await weeks();
    expect(after.length).toBeLessThan(before.length - 2);
    // The oldest ones are gone, the others are all there.
    expect(before.slice(-after.length)).toEqual(after);
  });

  it('never removes what is open, and removes what is finished around it', async () => {
    const open = await past(45, 'open');
    for (let n = 0; n < 10; n += 1) await past(45, 'succeeded');
    await janitor();
    expect(await kept()).toEqual(alike(open));
    // It is still delivered, after all that time, and then goes with the next round.
    await relay.startAnother({ role: 'worker' });
    await relay.api.ok('POST', `/v1/endpoints/${endpointId}/resume`);
    await relay.receiver('old').until((summary) => summary.succeededDeliveries === 1);
    await relay.api.untilSettled();
    await janitor();
    expect(await kept()).toEqual(alike());
  });

  it('works row by row when it is shorter than a week', async () => {
    await relay.close();
    relay = await Relay.start({ role: 'api', 'retention.days': 0.5, 'retention.batch': 3 });
    ({ endpointId } = await relay.api.endpoint(relay.receiver('old').url, 'old.*', { paused: true }));
    for (let n = 0; n < 8; n += 1) await past(0.6, 'succeeded');
    const open = await past(0.6, 'open');
    const young = await past(0.1, 'dead');
    await janitor();
    expect(await kept()).toEqual(alike(open, young));
  });

  it('removes idempotency keys that have expired, and no others', async () => {
    for (const key of ['old-1', 'old-2', 'old-3', 'old-4', 'young']) await relay.api.send('key.one', 1, key);
    await relay.sql(
      `UPDATE relayops.idempotency_keys SET expires_at = now() - interval '1 s' WHERE key LIKE 'old-%'`,
    );
    await janitor();
    const left = await relay.sql<{ key: string }>('SELECT key FROM relayops.idempotency_keys');
    expect(left.map(({ key }) => key)).toEqual(['young']);
  });

  it('makes partitions three weeks ahead', async () => {
    const isoWeek = (daysAhead: number) =>
      relay.sql<{ name: string }>(
        `SELECT 'events_' || to_char((now() + $1 * interval '1 day') AT TIME ZONE 'UTC', 'IYYY"w"IW') AS name`,
        daysAhead,
      );
    const [last] = await isoWeek(21);
    for (const table of ['events', 'deliveries', 'delivery_attempts'])
      await relay.sql(`DROP TABLE relayops.${last!.name.replace('events', table)}`);
    expect(await weeks()).not.toContain(last!.name);
    await janitor();
    expect(await weeks()).toContain(last!.name);
  });

  it('never lets acceptance wait for a reader that it would have to wait for itself', async () => {
    await past(45, 'succeeded');
    const [last] = (await weeks()).slice(-1);
    for (const table of ['events', 'deliveries', 'delivery_attempts'])
      await relay.sql(`DROP TABLE relayops.${last!.replace('events', table)}`);
    const reader = await relay.test.database.requests.connect();
    try {
      // As a dump does, for as long as it takes.
      await reader.query('BEGIN');
      await reader.query(
        'SELECT count(*) FROM relayops.events, relayops.deliveries, relayops.delivery_attempts',
      );
      const round = janitor();
      for (let n = 0; n < 20; n += 1) {
        const started = performance.now();
        await relay.api.send('beside.reader', n);
        expect(performance.now() - started).toBeLessThan(900);
      }
      await round;
      // Attaching a partition is not in a reader's way, nor the reader in its.
      expect(await weeks()).toContain(last);
    } finally {
      await reader.query('ROLLBACK');
      reader.release();
    }
    await janitor();
    expect(await weeks()).toContain(last);
    expect(await relay.count('events')).toBe(20);
  });

  it('is safe to be run by several processes at once, while events come in', async () => {
    for (let n = 0; n < 30; n += 1) await past(40 + n / 2, 'succeeded');
    const open = await past(50, 'open');
    const others = await Promise.all([1, 2, 3].map(() => relay.startAnother({ role: 'api' })));
    const sending = relay.api.sendMany('young.one', 1_500);
    const processes = [relay.process, ...others];
    for (let round = 0; round < 3; round += 1)
      await Promise.all(processes.map(({ runtime }) => runtime.janitor.round()));
    await sending;
    expect(await relay.count('events')).toBe(1_500 + 1);
    expect((await kept())['deliveries']).toEqual([open]);
    expect(await relay.backgroundErrors()).toEqual({});
  });
});
