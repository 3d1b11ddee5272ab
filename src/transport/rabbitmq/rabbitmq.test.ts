import { expect, it } from 'vitest';
import { deleteQueues, freshPrefix, onBroker } from '../../../test/support/rabbitmq.ts';
import { describeRabbitMq } from '../../../test/support/services.ts';
import { until } from '../../../test/support/until.ts';
import { OutboxPublisher } from '../../outbox/index.ts';
import { systemClock } from '../../shared/clock.ts';
import { transportConformance } from '../conformance.ts';
import { transportHarness, type TransportSite } from '../transport.fixture.ts';
import { RabbitTransport } from './index.ts';
import { encodeMessage } from './message.ts';
import { topology } from './topology.ts';

describeRabbitMq('RabbitMQ', (url) => {
  transportConformance('rabbitmq', () => {
    const prefix = freshPrefix();
    return transportHarness({
      config: {
        transport: 'rabbitmq',
        'rabbitmq.url': url,
        'rabbitmq.prefix': prefix,
        'rabbitmq.overdueMs': 500,
        'outbox.pollMs': 20,
      },
      hasMessages: true,
      open: async (site) => withPublisher(site),
      cleanUp: () => deleteQueues(url, prefix),
    });
  });

  it('passes on what waits in a message beside deliveries that are in flight, when it stops', async () => {
    const prefix = freshPrefix();
    const harness = await transportHarness({
      // No sweep comes to help.
      config: {
        transport: 'rabbitmq',
        'rabbitmq.url': url,
        'rabbitmq.prefix': prefix,
        'rabbitmq.overdueMs': 60_000,
      },
      hasMessages: true,
      open: async (site) => withPublisher(site),
      cleanUp: () => deleteQueues(url, prefix),
    });
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
    await onBroker(url, async (channel) => {
      const { ready } = topology(prefix);
      await until(
        'the queue',
        () => channel.checkQueue(ready).then(({ consumerCount }) => consumerCount),
        (consumers) => consumers === 1,
      );
      channel.sendToQueue(ready, encodeMessage(deliveries));
    });
    await stopped;
    expect(taken.size).toBe(2);
    await take(100, deliveries.length);
    expect([...taken].sort()).toEqual(deliveries.map(({ deliveryId }) => deliveryId).sort());
    await harness.close();
  });
});

/** A process with both roles: it publishes and delivers. */
function withPublisher(site: TransportSite): RabbitTransport {
  const transport: RabbitTransport = new RabbitTransport({
    ...site,
    clock: systemClock,
    onOutbox: () => publisher.poke(),
  });
  const publisher = new OutboxPublisher({ ...site, broker: transport.broker });
  transport.start();
  publisher.start();
  const close = transport.close.bind(transport);
  transport.close = async () => {
    await publisher.stop();
    await close();
  };
  return transport;
}
