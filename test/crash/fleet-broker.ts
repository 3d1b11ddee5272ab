import { beforeAll, expect, it } from 'vitest';
import type { SimulatedReceiver } from '../../src/simulator/index.ts';
import { deleteQueues, onBroker } from '../support/rabbitmq.ts';
import { until } from '../support/until.ts';
import { say } from './crash-site.ts';
import type { Fleet } from './fleet.ts';
import type { Outcome } from './under-load.ts';

const COPIES = 100;
/** Each delivery waits in a retry queue for its second attempt. */
const TWO_ATTEMPTS = {
  load: { senders: 2 },
  targets: [
    { behaviour: { status: '503,200', per: 'delivery', retryAfter: '2', latencyMs: 5, jitterMs: 20 } },
  ],
};

interface Lone {
  readonly deliveryId: string;
  readonly endpointId: string;
  readonly receiver: SimulatedReceiver;
}

/** RabbitMQ away, its queues emptied or gone, its messages repeated or strange. */
export function brokerFaults(opened: () => Fleet): void {
  let fleet: Fleet;
  beforeAll(() => {
    fleet = opened();
  });

  /** No attempt was lost, and no request was made twice. */
  function expectOnceEach(outcome: Outcome, attempts: 1 | 2): void {
    const retries = attempts === 2 ? { retryable: outcome.events } : {};
    expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events, ...retries });
    expect(outcome.duplicates).toBe(0);
  }

  const succeeded = (eventIds: readonly string[]): Promise<number> =>
    fleet.site.number(
      `SELECT count(*)::int AS n FROM relayops.deliveries WHERE event_id = ANY($1) AND state = 'succeeded'`,
      eventIds,
    );

  /** Waits until messages do the work: deliveries are claimed by them again. */
  async function untilMessagesFlow(): Promise<void> {
    const before = await fleet.messages('claimed');
    await until(
      'deliveries are claimed by their messages',
      () => fleet.messages('claimed'),
      (claimed) => claimed >= before + 30,
      20_000,
    );
  }

  it.each(['graceful', 'kill'] as const)(
    'takes events and delivers them without RabbitMQ (stopped: %s), and through it once it is back (SPEC F4, F5)',
    async (how) => {
      const outcome = await fleet.under(`stopped-${how}`, TWO_ATTEMPTS, async ({ persistent }) => {
        await fleet.rabbitmq.stop(how);
        await persistent.more(40);
        const accepted = [...persistent.accepted.values()].slice(-40);
        const started = performance.now();
        await until(
          'delivered without messages',
          () => succeeded(accepted),
          (count) => count === accepted.length,
          20_000,
        );
        say(
          `RabbitMQ away (${how}): ${accepted.length} delivered ${Math.round(performance.now() - started)} ms after they were accepted`,
        );
        await fleet.rabbitmq.startAgain();
        say('RabbitMQ started');
        await untilMessagesFlow();
      });
      expectOnceEach(outcome, 2);
      expect(Object.keys({ ...outcome.persistent.answers, ...outcome.once.answers })).toEqual(['202']);
    },
  );

  /** An endpoint's only delivery, which has failed once and whose message waits in a retry queue. */
  async function waitingForRetry(type: string): Promise<Lone> {
    const receiver = fleet.site.simulator.receiver(type);
    receiver.configure({ behaviour: { status: '503,200', retryAfter: '2' } });
    const { endpointId } = await fleet.api.endpoint(receiver.url, type);
    const { eventId } = await fleet.api.send(type);
    const { deliveryId } = await fleet.api.deliveryOf(eventId);
    await until(
      'its message is published',
      () =>
        fleet.site.number(
          `SELECT count(*)::int AS n FROM relayops.delivery_work w
           WHERE w.delivery_id = $1 AND w.attempt_no = 1 AND w.lease_token IS NULL
             AND NOT EXISTS (SELECT FROM relayops.outbox_messages o WHERE o.delivery_id = w.delivery_id)`,
          deliveryId,
        ),
      (count) => count === 1,
    );
    return { deliveryId, endpointId, receiver };
  }

  const purge = (): Promise<number> =>
    onBroker(fleet.rabbitmq.url, async (channel) => {
      const { ready, retries } = fleet.queues;
      let messages = 0;
      for (const queue of [ready, ...retries]) messages += (await channel.purgeQueue(queue)).messageCount;
      return messages;
    });

  it('loses nothing when all queues are purged, again and again (SPEC F4)', async () => {
    const outcome = await fleet.under('purged', TWO_ATTEMPTS, async ({ persistent }) => {
      const { receiver } = await waitingForRetry('lone.one');
      let purged = 0;
      for (let round = 1; round <= 5; round += 1) {
        purged += await purge();
        await persistent.more(20);
      }
      say(`${purged} messages purged`);
      expect(purged).toBeGreaterThan(0);
      await receiver.until(({ succeededDeliveries }) => succeededDeliveries === 1);
      expect(receiver.summary().requests).toBe(2);
    });
    expectOnceEach(outcome, 2);
  });

  it('loses nothing when all queues are deleted, again and again, and declares them anew (SPEC F4)', async () => {
    const outcome = await fleet.under('deleted', TWO_ATTEMPTS, async ({ persistent }) => {
      for (let round = 1; round <= 3; round += 1) {
        await deleteQueues(fleet.rabbitmq.url, 'relayops');
        say(`round ${round}: all queues deleted, ${persistent.accepted.size} accepted`);
        await persistent.more(30);
      }
      await untilMessagesFlow();
    });
    expectOnceEach(outcome, 2);
  });

  it('absorbs a hundred copies of one message, before and after the delivery has ended (SPEC F4)', async () => {
    const receiver = fleet.site.simulator.receiver('copied-one');
    receiver.configure({ behaviour: { latencyMs: 700 } });
    const { endpointId } = await fleet.api.endpoint(receiver.url, 'copy.one');
    const copy = async (deliveryId: string): Promise<void> =>
      onBroker(fleet.rabbitmq.url, async (channel) => {
        const content = Buffer.from(JSON.stringify({ v: 1, deliveries: { [endpointId]: [deliveryId] } }));
        for (let n = 0; n < COPIES; n += 1) channel.sendToQueue(fleet.queues.ready, content);
      });
    const before = await fleet.messages('stale');
    const outcome = await fleet.under('copied', {}, async ({ persistent }) => {
      const { eventId } = await fleet.api.send('copy.one');
      await receiver.until(({ requests }) => requests === 1);
      const { deliveryId } = await fleet.api.deliveryOf(eventId);
      await copy(deliveryId);
      await fleet.api.untilState(deliveryId, 'succeeded');
      await copy(deliveryId);
      const stale = await until(
        'copies are dropped',
        async () => (await fleet.messages('stale')) - before,
        (dropped) => dropped >= COPIES,
      );
      say(`${stale} copies were stale`);
      await persistent.more(20);
    });
    expect(receiver.summary().requests).toBe(1);
    expectOnceEach(outcome, 1);
  });

  it('delivers what only a message of the next version names, and keeps that message for operators (SPEC F4)', async () => {
    const before = await fleet.messages('foreign');
    const outcome = await fleet.under('newer', {}, async ({ persistent }) => {
      const { deliveryId, endpointId, receiver } = await waitingForRetry('next.version');
      await purge();
      await onBroker(fleet.rabbitmq.url, async (channel) => {
        const message = { v: 2, delivery: deliveryId, endpoint: endpointId };
        channel.sendToQueue(fleet.queues.ready, Buffer.from(JSON.stringify(message)));
      });
      await until(
        'the message is set aside',
        () => fleet.messages('foreign'),
        (foreign) => foreign === before + 1,
      );
      const letter = await onBroker(fleet.rabbitmq.url, (channel) =>
        channel.get(fleet.queues.dead, { noAck: true }),
      );
      expect(letter).toMatchObject({ properties: { headers: { reason: 'unknown_version' } } });
      await receiver.until(({ succeededDeliveries }) => succeededDeliveries === 1);
      expect(receiver.summary().requests).toBe(2);
      await persistent.more(20);
    });
    expectOnceEach(outcome, 1);
  });
}
