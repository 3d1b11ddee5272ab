import { deleteQueues, freshPrefix } from '../../../test/support/rabbitmq.ts';
import { describeRabbitMq } from '../../../test/support/services.ts';
import { OutboxPublisher } from '../../outbox/index.ts';
import { systemClock } from '../../shared/clock.ts';
import { transportConformance } from '../conformance.ts';
import { transportHarness, type TransportSite } from '../transport.fixture.ts';
import { RabbitTransport } from './index.ts';

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
