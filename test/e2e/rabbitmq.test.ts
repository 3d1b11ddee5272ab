import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { Config } from '../../src/config/index.ts';
import { newId } from '../../src/shared/ids.ts';
import { topology } from '../../src/transport/rabbitmq/topology.ts';
import { deleteQueues, depth, freshPrefix, onBroker } from '../support/rabbitmq.ts';
import { Relay } from '../support/relay.ts';
import { describeRabbitMq } from '../support/services.ts';
import { until } from '../support/until.ts';

const OVERDUE_MS = 700;
/** Everything goes through the broker, though these processes deliver what they accept. */
const BY_MESSAGE = { 'rabbitmq.handOver': false };

describeRabbitMq('the RabbitMQ transport (SPEC F2, F4)', (url) => {
  const prefix = freshPrefix();
  const queues = topology(prefix);
  const config: Partial<Config> = {
    ...BY_MESSAGE,
    transport: 'rabbitmq',
    'rabbitmq.url': url,
    'rabbitmq.prefix': prefix,
    'rabbitmq.overdueMs': OVERDUE_MS,
    'outbox.pollMs': 50,
  };
  let relay: Relay;

  beforeAll(async () => {
    relay = await Relay.start(config);
    await until(
      'ready to publish',
      async () => dependency(),
      (state) => state?.up === true,
    );
  });
  afterAll(async () => {
    await relay.close(['rabbitmq']);
    await deleteQueues(url, prefix);
  });

  interface Readiness {
    readonly dependencies: { readonly name: string; readonly up: boolean; readonly required: boolean }[];
  }
  const dependency = async () => {
    const { body } = await relay.admin.call<Readiness>('GET', '/readyz');
    return body.dependencies.find(({ name }) => name === 'rabbitmq');
  };
  const fates = async (): Promise<Record<string, number>> => {
    const { values } = await relay.process.runtime.metrics.brokerMessages.get();
    return Object.fromEntries(values.map(({ labels, value }) => [String(labels.fate), value] as const));
  };
  const overdue = async (): Promise<number> =>
    (await relay.process.runtime.metrics.overdueClaimed.get()).values[0]?.value ?? 0;
  const publish = (queue: string, content: string, headers = {}) =>
    onBroker(url, async (channel) => {
      channel.sendToQueue(queue, Buffer.from(content), { headers });
    });
  const nothingWaits = () =>
    until(
      'no message and no outbox row',
      async () => [await depth(url, queues.ready), await relay.count('outbox_messages')],
      ([messages, rows]) => messages === 0 && rows === 0,
    );

  it('delivers by messages, and leaves none of them, nor an outbox row', async () => {
    const receiver = relay.receiver('plain');
    await relay.api.endpoint(receiver.url, 'plain.*');
    await relay.api.sendMany('plain.one', 300);
    await receiver.until((summary) => summary.succeededDeliveries === 300);
    await nothingWaits();
    expect(await fates()).toMatchObject({ claimed: 300 });
    expect(await overdue()).toBe(0);
    expect(await dependency()).toMatchObject({ up: true, required: false });
  });

  it('keeps a retry in a queue until it is due, and takes no attempt for a message that comes too early', async () => {
    const receiver = relay.receiver('later');
    receiver.configure({ behaviour: { status: '503,200', retryAfter: '4' } });
    await relay.api.endpoint(receiver.url, 'later.*');
    const before = await fates();
    const { eventId } = await relay.api.send('later.one');
    const delivery = await relay.api.untilEnded(eventId);
    const [first, second] = await relay.api.attempts(delivery.deliveryId);
    expect(Date.parse(second!.startedAt!) - Date.parse(first!.startedAt!)).toBeGreaterThanOrEqual(4_000);
    expect(Date.parse(second!.startedAt!) - Date.parse(first!.startedAt!)).toBeLessThan(5_000);
    expect(delivery.state).toBe('succeeded');
    // It waits 2 s, comes too early, waits 1 s more, and the rest of the time is kept in mind.
    expect((await fates())['early']! - (before['early'] ?? 0)).toBe(2);
    expect(await overdue()).toBe(0);
  });

  it('puts what is dead into the dead-letter queue, with its context in headers (SPEC E1)', async () => {
    const receiver = relay.receiver('dying');
    receiver.configure({ behaviour: { status: 500 } });
    await relay.api.endpoint(receiver.url, 'dying.*', { retry: { maxAttempts: 2 } });
    const { eventId } = await relay.api.send('dying.one');
    const { deliveryId, endpointId } = await relay.api.untilEnded(eventId);
    await until(
      'a dead letter',
      () => depth(url, queues.dead),
      (messages) => messages === 1,
    );
    const letter = await onBroker(url, (channel) => channel.get(queues.dead, { noAck: true }));
    if (letter === false) throw new Error('no dead letter');
    expect(letter.properties.deliveryMode).toBe(2);
    expect(letter.properties.headers).toMatchObject({
      tenant_id: relay.tenantId,
      event_id: eventId,
      event_type: 'dying.one',
      delivery_id: deliveryId,
      endpoint_id: endpointId,
      reason: 'attempts_exhausted',
      attempts: 2,
      http_status: 500,
    });
    expect(JSON.parse(letter.content.toString())).toEqual({
      v: 1,
      deliveries: { [endpointId]: [deliveryId] },
    });
  });

  it('absorbs messages that come twice, before and after the delivery ended, and those of deliveries that never were', async () => {
    const receiver = relay.receiver('twice');
    receiver.configure({ behaviour: { latencyMs: 300 } });
    const { endpointId } = await relay.api.endpoint(receiver.url, 'twice.*');
    const { eventId } = await relay.api.send('twice.one');
    const { deliveryId } = await relay.api.deliveryOf(eventId);
    const copy = JSON.stringify({
      v: 1,
      deliveries: { [endpointId]: [deliveryId] },
      later: 'fields of a newer version',
    });
    await receiver.until((summary) => summary.requests === 1);
    await publish(queues.ready, copy);
    await publish(queues.ready, copy);
    await relay.api.untilState(deliveryId, 'succeeded');
    const before = (await fates())['stale'] ?? 0;
    await publish(queues.ready, copy);
    await publish(queues.ready, JSON.stringify({ v: 1, deliveries: { [endpointId]: [newId(Date.now())] } }));
    await until('both dropped', fates, ({ stale }) => stale! >= before + 2);
    expect(receiver.summary()).toMatchObject({ requests: 1 });
    expect(await relay.api.attempts(deliveryId)).toHaveLength(1);
  });

  it('keeps what is none of its own for operators, with the reason, and goes on', async () => {
    const [id, other] = [newId(Date.now()), newId(Date.now())];
    const strangers = {
      'not json': 'not_json',
      '[]': 'malformed',
      [JSON.stringify({ v: 1, deliveries: { [id]: ['1; DROP TABLE'] } })]: 'malformed',
      [JSON.stringify({ v: 1, deliveries: { x: [id] } })]: 'malformed',
      [JSON.stringify({ v: 1, deliveries: { [id]: id } })]: 'malformed',
      '{"v":1,"deliveries":{"__proto__":[]}}': 'malformed',
      [JSON.stringify({ v: 1, deliveries: [] })]: 'malformed',
      [JSON.stringify({ v: 1, deliveries: {} })]: 'malformed',
      [JSON.stringify({ v: 1, deliveries: { [id]: [] } })]: 'malformed',
      [JSON.stringify({ v: 1, deliveries: { [id]: Array(1_024).fill(id), [other]: [id] } })]: 'malformed',
      [JSON.stringify({ v: 2, deliveries: { [id]: [id] } })]: 'unknown_version',
    };
    for (const content of Object.keys(strangers)) await publish(queues.ready, content);
    await until(
      'kept',
      () => depth(url, queues.dead),
      (messages) => messages === Object.keys(strangers).length,
    );
    const kept: Record<string, unknown> = {};
    await onBroker(url, async (channel) => {
      for (let n = 0; n < Object.keys(strangers).length; n += 1) {
        const letter = await channel.get(queues.dead, { noAck: true });
        if (letter !== false) kept[letter.content.toString()] = letter.properties.headers?.['reason'];
      }
    });
    expect(kept).toEqual(strangers);
    const receiver = relay.receiver('after-strangers');
    await relay.api.endpoint(receiver.url, 'strangers.*');
    await relay.api.send('strangers.one');
    await receiver.until((summary) => summary.succeededDeliveries === 1);
  });

  it('delivers from the database what a purged queue has lost', async () => {
    const receiver = relay.receiver('purged');
    receiver.configure({ behaviour: { status: '503,200', per: 'delivery', retryAfter: '60' } });
    const { endpointId } = await relay.api.endpoint(receiver.url, 'purged.*', { maxConcurrency: 100 });
    await relay.api.sendMany('purged.one', 50);
    await receiver.until((summary) => summary.requests === 50);
    await until(
      'retries in their queue',
      async () => [await relay.count('outbox_messages'), await waiting()],
      ([rows, messages]) => rows === 0 && messages! > 0,
    );
    await onBroker(url, async (channel) => {
      for (const queue of queues.retries) await channel.purgeQueue(queue);
    });
    const before = await overdue();
    await relay.sql('UPDATE relayops.delivery_work SET due_at = now() WHERE endpoint_id = $1', endpointId);
    await receiver.until((summary) => summary.succeededDeliveries === 50);
    expect((await overdue()) - before).toBe(50);
    expect(receiver.summary().requests).toBe(100);
  });

  const waiting = async (): Promise<number> => {
    const depths = await Promise.all(queues.retries.map((queue) => depth(url, queue)));
    return depths.reduce((sum, messages) => sum + messages, 0);
  };

  it('declares its queues again when they were deleted, and loses nothing meanwhile', async () => {
    const receiver = relay.receiver('deleted');
    await relay.api.endpoint(receiver.url, 'deleted.*');
    await deleteQueues(url, prefix);
    await relay.api.sendMany('deleted.one', 100);
    await receiver.until((summary) => summary.succeededDeliveries === 100);
    await until('connected again', dependency, (state) => state?.up === true);
    await nothingWaits();
    const before = (await fates())['claimed'] ?? 0;
    await relay.api.sendMany('deleted.one', 10);
    await receiver.until((summary) => summary.succeededDeliveries === 110);
    expect((await fates())['claimed']).toBe(before + 10);
    expect(receiver.summary().duplicatesAfterSuccess).toBe(0);
  });

  it('goes on when the broker ends its connections', async () => {
    const receiver = relay.receiver('cut');
    await relay.api.endpoint(receiver.url, 'cut.*');
    for (let round = 1; round <= 3; round += 1) {
      // As a broker does it to a channel that broke the rules: its topology is another than it was.
      await onBroker(url, (channel) => channel.deleteQueue(queues.ready));
      await relay.api.sendMany('cut.one', 30);
      await receiver.until((summary) => summary.succeededDeliveries === 30 * round);
    }
    expect(receiver.summary().requests).toBe(90);
  });

  it('does not let messages of an endpoint that hangs hold up the others', async () => {
    const [hung, well] = [relay.receiver('hung'), relay.receiver('well')];
    hung.configure({ behaviour: { hang: true } });
    const { endpointId } = await relay.api.endpoint(hung.url, 'crowd.*');
    await relay.api.endpoint(well.url, 'well.*');
    await relay.api.sendMany('crowd.one', 2_000);
    await relay.api.sendMany('well.one', 20);
    await well.until((summary) => summary.succeededDeliveries === 20);
    await until('its messages left to the database', fates, ({ left }) => left! >= 1_500);
    expect(hung.summary().requests).toBeLessThanOrEqual(32);
    await relay.api.ok('DELETE', `/v1/endpoints/${endpointId}`);
  });

  it('lets the deliveries of a paused endpoint wait without a message, and finds them when it is resumed', async () => {
    const receiver = relay.receiver('paused');
    const { endpointId } = await relay.api.endpoint(receiver.url, 'paused.*', { paused: true });
    await relay.api.sendMany('paused.one', 40);
    await nothingWaits();
    await pause(2 * OVERDUE_MS);
    expect(receiver.summary().requests).toBe(0);
    await relay.api.ok('POST', `/v1/endpoints/${endpointId}/resume`);
    await receiver.until((summary) => summary.succeededDeliveries === 40);
    expect(receiver.summary().requests).toBe(40);
  });

  it('publishes replays', async () => {
    const receiver = relay.receiver('replayed');
    receiver.configure({ behaviour: { status: 400 } });
    const { endpointId } = await relay.api.endpoint(receiver.url, 'replayed.*');
    await relay.api.sendMany('replayed.one', 20);
    await until(
      'all failed',
      () => relay.api.deliveries({ endpointId, state: 'failed' }),
      (failed) => failed.length === 20,
    );
    receiver.configure({ behaviour: {} });
    const before = (await fates())['claimed'] ?? 0;
    await relay.api.ok('POST', '/v1/replays', { endpointId });
    await receiver.until((summary) => summary.succeededDeliveries === 20);
    expect((await fates())['claimed']! - before).toBe(20);
  });
});

describeRabbitMq('a process with RabbitMQ', (url) => {
  it('holds no more messages than its prefetch', async () => {
    const prefix = freshPrefix();
    const { ready } = topology(prefix);
    const relay = await Relay.start({
      ...BY_MESSAGE,
      transport: 'rabbitmq',
      'rabbitmq.url': url,
      'rabbitmq.prefix': prefix,
      'rabbitmq.prefetch': 5,
      'delivery.concurrency': 3,
    });
    const receiver = relay.receiver('slow');
    receiver.configure({ behaviour: { hang: true } });
    await relay.api.endpoint(receiver.url, 'slow.*');
    await until(
      'ready to publish',
      () => relay.process.runtime.messaging?.transport.state(),
      (state) => state?.publishing === true,
    );
    // One by one: what is accepted together shares a message.
    for (let n = 0; n < 30; n += 1) await relay.api.send('slow.one');
    await until(
      'published',
      () => relay.count('outbox_messages'),
      (rows) => rows === 0,
    );
    await receiver.until((summary) => summary.requests === 3);
    expect(await depth(url, ready)).toBe(25);
    receiver.configure({ behaviour: {} });
    await relay.close();
    await deleteQueues(url, prefix);
  });

  it.each([
    ['rabbitmq', 'postgres'],
    ['postgres', 'rabbitmq'],
  ] as const)('that used %s goes on with what is open when it is started with %s', async (from, to) => {
    const prefix = freshPrefix();
    const shared = { 'rabbitmq.url': url, 'rabbitmq.prefix': prefix, 'rabbitmq.overdueMs': OVERDUE_MS };
    const relay = await Relay.start({ ...shared, transport: from, role: 'api' });
    const receiver = relay.receiver('switch');
    await relay.api.endpoint(receiver.url, 'switch.*');
    await relay.api.sendMany('switch.one', 60);
    await relay.process.stop();
    const next = await relay.startAnother({ ...shared, transport: to, role: 'all' });
    const api = relay.api.at(next.url);
    await api.sendMany('switch.one', 60);
    await receiver.until((summary) => summary.succeededDeliveries === 120);
    expect(receiver.summary().requests).toBe(120);
    await relay.close();
    if (from === 'rabbitmq' || to === 'rabbitmq') await deleteQueues(url, prefix);
  });

  it('says what is wrong when a queue of that name is of another kind, and delivers from the database', async () => {
    const prefix = freshPrefix();
    await onBroker(url, (channel) => channel.assertQueue(topology(prefix).ready, { durable: true }));
    const relay = await Relay.start({
      transport: 'rabbitmq',
      'rabbitmq.url': url,
      'rabbitmq.prefix': prefix,
      'rabbitmq.overdueMs': OVERDUE_MS,
    });
    const receiver = relay.receiver('without');
    await relay.api.endpoint(receiver.url, 'without.*');
    await relay.api.send('without.one');
    await receiver.until((summary) => summary.succeededDeliveries === 1);
    const { body } = await relay.admin.call('GET', '/readyz');
    expect(body).toMatchObject({
      status: 'ready',
      dependencies: [
        { name: 'postgresql', up: true },
        { name: 'rabbitmq', up: false },
      ],
    });
    await expect(relay.close()).rejects.toThrow(/PRECONDITION_FAILED.*x-queue-type/);
    await deleteQueues(url, prefix);
  });
});
