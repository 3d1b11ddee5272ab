import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { until } from '../../test/support/until.ts';
import { type Config, loadConfig } from '../config/index.ts';
import { type DeliveryId, type EndpointId, newId } from '../shared/ids.ts';
import type { MessageBroker, OutgoingMessage, PublishFailure } from '../transport/port.ts';
import { claimMessages, insertMessages } from './outbox.sql.ts';
import { OutboxPublisher } from './publisher.ts';

/** A broker whose confirms the test decides on; the real one is in the transport's own tests. */
class Broker implements MessageBroker {
  isConnected = true;
  failure: PublishFailure | null = null;
  readonly sent: OutgoingMessage[] = [];

  async publish(messages: readonly OutgoingMessage[]): Promise<ReadonlyMap<string, PublishFailure>> {
    this.sent.push(...messages);
    const { failure } = this;
    return new Map(failure === null ? [] : messages.map(({ id }) => [id, failure]));
  }
}

const FLOOR = { floorId: '00000000-0000-0000-0000-000000000000', limit: 1_000 };

let test: TestDatabase;
let broker: Broker;
let publishers: OutboxPublisher[];

beforeEach(async () => {
  test = await testDatabase();
  broker = new Broker();
  publishers = [];
});
afterEach(async () => {
  for (const publisher of publishers) await publisher.stop();
  await test.close();
});

const start = (
  instance: string,
  on: MessageBroker = broker,
  overrides: Partial<Config> = {},
): OutboxPublisher => {
  const publisher = new OutboxPublisher({
    database: test.database,
    broker: on,
    config: loadConfig({}, { 'outbox.pollMs': 20, 'outbox.batch': 7, ...overrides }),
    instance,
    onError: (error) => {
      throw error;
    },
  });
  publishers.push(publisher);
  publisher.start();
  return publisher;
};
const handedOver = () => ({
  deliveryId: newId<DeliveryId>(Date.now()),
  endpointId: newId<EndpointId>(Date.now()),
});
const isSent = (outboxId: string) => () => broker.sent.some(({ id }) => id === outboxId);
const write = async (count: number, at = Date.now()): Promise<string[]> => {
  const rows = Array.from({ length: count }, () => ({ outboxId: newId<DeliveryId>(at), ...handedOver() }));
  await test.database.transaction(async (tx) => {
    await tx.query({
      text: `INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at)
             SELECT id, id, id, id, now() FROM unnest($1::uuid[]) AS id`,
      values: [rows.map((row) => row.deliveryId)],
    });
    await insertMessages(tx, rows);
  });
  return rows.map((row) => row.outboxId);
};
const left = async (): Promise<number> => {
  const { rows } = await test.database.requests.query<{ n: number }>(
    'SELECT count(*)::int AS n FROM relayops.outbox_messages',
  );
  return rows[0]!.n;
};
const untilLeft = (count: number) => until(`${count} rows left`, left, (rows) => rows === count);

it('publishes each row once, by however many publishers, and removes what was confirmed', async () => {
  const other = new Broker();
  start('one');
  start('two', other);
  const written = await write(200);
  await untilLeft(0);
  const sent = [...broker.sent, ...other.sent].map((message) => message.id);
  expect(sent.sort()).toEqual(written.sort());
});

it('keeps every row that was not confirmed, tries it again for ever, and goes on removing afterwards', async () => {
  broker.failure = 'nacked';
  start('one');
  const written = await write(5);
  await until(
    'three tries',
    () => broker.sent.length,
    (sent) => sent >= 15,
  );
  expect(await left()).toBe(5);
  broker.failure = null;
  await untilLeft(0);
  expect(new Set(broker.sent.map(({ id }) => id))).toEqual(new Set(written));
  await write(3);
  await untilLeft(0);
});

it('leaves rows alone while another has them in hand, and takes them when that claim has run out', async () => {
  const [first] = await write(1);
  await claimMessages(test.database.delivery, FLOOR, { publisher: 'vanished', ms: 300 });
  const started = Date.now();
  start('one');
  await write(1);
  await untilLeft(1);
  await untilLeft(0);
  expect(Date.now() - started).toBeGreaterThan(250);
  expect(broker.sent.at(-1)!.id).toBe(first);
});

it('finds what others wrote or left, under load and after a slow look from the beginning (SPEC F2)', async () => {
  const slowMs = 500;
  const lock = await test.database.requests.connect();
  await lock.query('BEGIN');
  await lock.query('LOCK TABLE relayops.outbox_messages IN ACCESS EXCLUSIVE MODE');
  const publisher = start('one', broker, { 'outbox.claimMs': 1_200, 'rabbitmq.confirmTimeoutMs': 1_000 });
  await pause(slowMs);
  await lock.query('COMMIT');
  lock.release();
  // What it commits itself, all the time.
  const load = setInterval(() => publisher.offer([handedOver()]), 5);
  try {
    const [left] = await write(1, Date.now() - 3_600_000);
    await claimMessages(test.database.delivery, FLOOR, { publisher: 'vanished', ms: 300 });
    const [written] = await write(1);
    const started = Date.now();
    await until('a new row is found', isSent(written!), Boolean);
    expect(Date.now() - started).toBeLessThan(700);
    await until('one whose publisher vanished is found', isSent(left!), Boolean);
    expect(Date.now() - started).toBeLessThan(slowMs / 0.05 / 4);
  } finally {
    clearInterval(load);
  }
});

it('claims nothing while the broker is away, and gives back what it was offered', async () => {
  broker.isConnected = false;
  const publisher = start('one');
  expect(publisher.claim()).toBeNull();
  await write(2);
  const { rows } = await test.database.requests.query<{ delivery_id: DeliveryId; endpoint_id: EndpointId }>(
    "UPDATE relayops.outbox_messages SET outbox_id = delivery_id, claimed_by = 'one', claimed_until = now() + interval '1 hour' RETURNING *",
  );
  publisher.offer(rows.map((row) => ({ deliveryId: row.delivery_id, endpointId: row.endpoint_id })));
  await until(
    'given back',
    () => claimMessages(test.database.delivery, FLOOR, { publisher: 'other', ms: 1 }),
    (claimed) => claimed.length === 2,
  );
  expect(broker.sent).toEqual([]);
  broker.isConnected = true;
  await untilLeft(0);
});

it('finds rows that came in late, below what it has seen', async () => {
  start('one');
  await write(3);
  await untilLeft(0);
  const outboxId = newId<DeliveryId>(Date.now() - 3_600_000);
  await insertMessages(test.database.requests, [
    { outboxId, deliveryId: outboxId, endpointId: newId<EndpointId>(Date.now()) },
  ]);
  await untilLeft(0);
  expect(broker.sent.at(-1)!.id).toBe(outboxId);
});

it('drops messages of deliveries that have ended while the broker is away, and keeps those that are open', async () => {
  broker.isConnected = false;
  const written = await write(2_500);
  const open = written.slice(1_000, 1_010);
  await test.database.requests.query(
    `DELETE FROM relayops.delivery_work w USING relayops.outbox_messages o
     WHERE o.delivery_id = w.delivery_id AND o.outbox_id <> ALL($1::uuid[])`,
    [open],
  );
  await test.database.requests.query(
    "UPDATE relayops.outbox_messages SET queue = 'dead' WHERE outbox_id = $1",
    [written[5]],
  );
  start('one');
  await untilLeft(11);
  broker.isConnected = true;
  await untilLeft(0);
  expect(broker.sent.map(({ id }) => id).sort()).toEqual([written[5], ...open].sort());
});
