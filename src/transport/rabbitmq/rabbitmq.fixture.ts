import { deleteQueues } from '../../../test/support/rabbitmq.ts';
import type { Config } from '../../config/index.ts';
import { OutboxPublisher } from '../../outbox/index.ts';
import { systemClock } from '../../shared/clock.ts';
import type { TransportHarness } from '../conformance.ts';
import { transportHarness, type TransportSite } from '../transport.fixture.ts';
import { RabbitTransport } from './index.ts';

/** Processes on queues of their own, which are deleted at the end. */
export function rabbitHarness(
  url: string,
  prefix: string,
  config: Partial<Config>,
  open: (site: TransportSite) => RabbitTransport,
): Promise<TransportHarness> {
  return transportHarness({
    config: {
      transport: 'rabbitmq',
      'rabbitmq.url': url,
      'rabbitmq.prefix': prefix,
      'outbox.pollMs': 20,
      ...config,
    },
    hasMessages: true,
    open: async (site) => open(site),
    cleanUp: () => deleteQueues(url, prefix),
  });
}

/** A process with both roles: it publishes and delivers. */
export function withPublisher(site: TransportSite): RabbitTransport {
  const transport: RabbitTransport = new RabbitTransport({
    ...site,
    clock: systemClock,
    onOutbox: () => publisher.poke(),
    onOwnDone: (deliveries) => publisher.skip(deliveries),
    onOwnLeft: (deliveries) => publisher.offer(deliveries),
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
