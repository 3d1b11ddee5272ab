import { expect, it } from 'vitest';
import { freshPrefix, onBroker } from '../../../test/support/rabbitmq.ts';
import { describeRabbitMq } from '../../../test/support/services.ts';
import { until } from '../../../test/support/until.ts';
import { Receiver, transportConformance, type TransportHarness } from '../conformance.ts';
import { encodeMessage, type NamedDelivery } from './message.ts';
import { rabbitHarness, withPublisher } from './rabbitmq.fixture.ts';
import { topology } from './topology.ts';

describeRabbitMq('RabbitMQ', (url) => {
  const openHarness = (prefix: string, overdueMs: number): Promise<TransportHarness> =>
    rabbitHarness(url, prefix, { 'rabbitmq.overdueMs': overdueMs }, withPublisher);

  /** Sends messages of our own making, once a worker waits for them. */
  const sending = (
    prefix: string,
    act: (send: (named: readonly NamedDelivery[]) => void) => Promise<unknown> | void,
  ): Promise<void> =>
    onBroker(url, async (channel) => {
      const { ready } = topology(prefix);
      await until(
        'the queue',
        () => channel.checkQueue(ready).then(({ consumerCount }) => consumerCount),
        (consumers) => consumers === 1,
      );
      await act((named) => channel.sendToQueue(ready, encodeMessage(named)));
    });

  transportConformance('rabbitmq', () => openHarness(freshPrefix(), 500));

  it('passes on what waits in a message beside deliveries that are in flight, when it stops', async () => {
    const prefix = freshPrefix();
    // No sweep comes to help.
    const harness = await openHarness(prefix, 60_000);
    const taken = new Set<string>();
    const take = async (room: number, enough: number): Promise<void> => {
      const transport = await harness.open();
      const stop = new AbortController();
      const capacity = { free: () => room, onMore: () => undefined };
      for await (const batch of transport.receive(capacity, stop.signal)) {
        for (const { deliveryId } of batch) taken.add(deliveryId);
        room -= batch.length;
        if (taken.size >= enough) stop.abort();
      }
      await transport.close();
    };
    const [a, b] = harness.endpoints;
    const deliveries = [
      ...(await harness.accept(a, 4)).map((deliveryId) => ({ endpointId: a, deliveryId })),
      ...(await harness.accept(b, 4)).map((deliveryId) => ({ endpointId: b, deliveryId })),
    ];
    const stopped = take(2, 2);
    await sending(prefix, (send) => send(deliveries));
    await stopped;
    expect(taken.size).toBe(2);
    await take(100, deliveries.length);
    expect([...taken].sort()).toEqual(deliveries.map(({ deliveryId }) => deliveryId).sort());
    await harness.close();
  });

  it('claims a delivery for its own endpoint alone, whatever a message says', async () => {
    const prefix = freshPrefix();
    const harness = await openHarness(prefix, 60_000);
    const [a, b] = harness.endpoints;
    const [ofA] = await harness.accept(a, 1);
    const [ofB] = await harness.accept(b, 1);
    const receiver = new Receiver(await harness.open(), harness.coordination, 1_000);
    try {
      await sending(prefix, (send) =>
        send([
          { endpointId: b, deliveryId: ofA! },
          { endpointId: a, deliveryId: ofA! },
          { endpointId: b, deliveryId: ofB! },
        ]),
      );
      await receiver.until((work) => work.length >= 2);
      expect(receiver.work.map(({ endpointId, deliveryId }) => [endpointId, deliveryId]).sort()).toEqual(
        [
          [a, ofA],
          [b, ofB],
        ].sort(),
      );
    } finally {
      await receiver.close();
      await harness.close();
    }
  });

  it('finds what a vanished worker held of a saturated endpoint, though no message of it comes to a claim', async () => {
    const prefix = freshPrefix();
    const harness = await openHarness(prefix, 1_000);
    const [endpointId] = harness.endpoints;
    const [lost] = await harness.accept(endpointId, 1);
    // Below where claims of the lane start, and not older than the first messages by what is allowed.
    await harness.postpone(endpointId, -500);
    await harness.lease(endpointId, 1_000);
    const named = (await harness.accept(endpointId, 300)).map((deliveryId) => ({ endpointId, deliveryId }));
    const receiver = new Receiver(await harness.open(), harness.coordination, 1_000);
    try {
      await sending(prefix, (send) => {
        let looks = 0;
        // Few leave, many come, and messages never end: the endpoint's lane claims what they name.
        return until(
          'the lost one',
          () => {
            send([named[looks++ % named.length]!]);
            if (receiver.work.length >= harness.concurrency && looks % 8 === 0) receiver.release(1);
            return receiver.work.some((work) => work.deliveryId === lost);
          },
          (isFound) => isFound,
        );
      });
      expect(receiver.work.length).toBeLessThan(named.length);
    } finally {
      await receiver.close();
      await harness.close();
    }
  });
});
