import { expect, it } from 'vitest';
import { freshPrefix, onBroker } from '../../../test/support/rabbitmq.ts';
import { describeRabbitMq } from '../../../test/support/services.ts';
import { TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { until } from '../../../test/support/until.ts';
import { systemClock } from '../../shared/clock.ts';
import { type DeliveryId, type EndpointId, newId } from '../../shared/ids.ts';
import { Receiver, type TransportHarness } from '../conformance.ts';
import type { DueDelivery } from '../port.ts';
import { Inbox } from './inbox.ts';
import { RabbitTransport } from './index.ts';
import { encodeMessage } from './message.ts';
import { rabbitHarness } from './rabbitmq.fixture.ts';
import { topology } from './topology.ts';

/** What a process said of deliveries that were handed over to it. */
interface Said {
  readonly done: DueDelivery[];
  readonly left: DueDelivery[];
  messages: number;
}

/** No sweep comes to help. */
const NEVER_OVERDUE = { 'rabbitmq.overdueMs': 60_000 };
const CLAIM_BATCH = 16;

describeRabbitMq('RabbitMQ: deliveries that a process has accepted itself', (url) => {
  const inHarness = async (
    prefix: string,
    act: (site: { harness: TransportHarness; transport: RabbitTransport; said: Said }) => Promise<void>,
  ): Promise<void> => {
    const said: Said = { done: [], left: [], messages: 0 };
    const config = { ...NEVER_OVERDUE, 'delivery.claimBatch': CLAIM_BATCH };
    const harness = await rabbitHarness(url, prefix, config, (site) => {
      const transport = new RabbitTransport({
        ...site,
        clock: systemClock,
        onOutbox: () => undefined,
        onOwnDone: (deliveries) => said.done.push(...deliveries),
        onOwnLeft: (deliveries) => said.left.push(...deliveries),
        onMessages: (_fate, count) => void (said.messages += count),
      });
      transport.start();
      return transport;
    });
    try {
      await act({ harness, transport: (await harness.open()) as RabbitTransport, said });
    } finally {
      await harness.close();
    }
  };

  const acceptFor = async (
    harness: TransportHarness,
    endpointId: EndpointId,
    count: number,
  ): Promise<DueDelivery[]> =>
    (await harness.accept(endpointId, count)).map((deliveryId) => ({ deliveryId, endpointId }));

  const ids = (deliveries: readonly { readonly deliveryId: DeliveryId }[]): DeliveryId[] =>
    deliveries.map(({ deliveryId }) => deliveryId).sort();

  it('claims them without a message, and says that their outbox rows are not needed', () =>
    inHarness(freshPrefix(), async ({ harness, transport, said }) => {
      const [a, b] = harness.endpoints;
      const deliveries = [...(await acceptFor(harness, a, 4)), ...(await acceptFor(harness, b, 4))];
      const receiver = new Receiver(transport, harness.coordination, 1_000);
      await until(
        'a process that receives',
        () => transport.handOver(deliveries),
        (rest) => rest.length === 0,
      );
      await receiver.until((work) => work.length >= deliveries.length);
      expect(ids(receiver.work)).toEqual(ids(deliveries));
      expect(ids(said.done)).toEqual(ids(deliveries));
      expect(said.messages).toBe(0);
      await receiver.close();
      expect(said.left).toEqual([]);
    }));

  it('takes none before it receives, and no more than one claim holds', () =>
    inHarness(freshPrefix(), async ({ harness, transport }) => {
      const deliveries = await acceptFor(harness, harness.endpoints[0], CLAIM_BATCH + 4);
      expect(transport.handOver(deliveries)).toBe(deliveries);
      const receiver = new Receiver(transport, harness.coordination, 1_000);
      const rest = await until(
        'a process that receives',
        () => transport.handOver(deliveries),
        (left) => left.length < deliveries.length,
      );
      expect(rest).toEqual(deliveries.slice(CLAIM_BATCH));
      await receiver.close();
    }));

  it('takes none of an endpoint that is waited for already: others may have room for it', () =>
    inHarness(freshPrefix(), async ({ harness, transport }) => {
      const [a, b] = harness.endpoints;
      const [ofA] = await acceptFor(harness, a, 1);
      const [first, second] = await acceptFor(harness, b, 2);
      const receiver = new Receiver(transport, harness.coordination, 1_000);
      await until(
        'a process that receives',
        () => transport.handOver([first!]),
        (rest) => rest.length === 0,
      );
      transport.endpointChanged(a);
      expect(transport.handOver([ofA!, second!])).toEqual([ofA]);
      await receiver.close();
    }));

  it('takes none while a delivery waits that a message named: that one came first', async () => {
    const prefix = freshPrefix();
    await inHarness(prefix, async ({ harness, transport }) => {
      const [a] = harness.endpoints;
      const named = await acceptFor(harness, a, 2);
      const [own] = await acceptFor(harness, a, 1);
      let room = 1;
      const stop = new AbortController();
      const work: DeliveryId[] = [];
      const receiving = (async () => {
        const capacity = { free: () => room, onMore: () => undefined };
        for await (const batch of transport.receive(capacity, stop.signal)) {
          room -= batch.length;
          work.push(...batch.map(({ deliveryId }) => deliveryId));
        }
      })();
      await onBroker(url, async (channel) => {
        const { ready } = topology(prefix);
        await until(
          'the queue',
          () => channel.checkQueue(ready).then(({ consumerCount }) => consumerCount),
          (consumers) => consumers === 1,
        );
        channel.sendToQueue(ready, encodeMessage(named));
      });
      await until(
        'one of the two',
        () => work.length,
        (count) => count === 1,
      );
      room = 10;
      // Nobody has told the transport of the room yet, so the second waits.
      expect(transport.handOver([own!])).toEqual([own]);
      stop.abort();
      await receiving;
      await transport.close();
    });
  });

  it('gives back what it has not claimed when it stops, since they need their messages then', () =>
    inHarness(freshPrefix(), async ({ harness, transport, said }) => {
      const deliveries = await acceptFor(harness, harness.endpoints[0], 4);
      let room = 100;
      const stop = new AbortController();
      const receiving = (async () => {
        const capacity = { free: () => room, onMore: () => undefined };
        for await (const batch of transport.receive(capacity, stop.signal)) expect(batch).toEqual([]);
      })();
      await until(
        'a process that receives',
        () => {
          const rest = transport.handOver(deliveries);
          // Before it comes to a claim.
          if (rest.length === 0) room = 0;
          return rest;
        },
        (rest) => rest.length === 0,
      );
      stop.abort();
      expect(transport.handOver(deliveries)).toBe(deliveries);
      await receiving;
      expect(ids(said.left)).toEqual(ids(deliveries));
      expect(said.done).toEqual([]);
      await transport.close();
    }));

  it('keeps them when the connection to the broker is lost, which takes away only what it brought', async () => {
    const proxy = await TcpProxy.start(url);
    const prefix = freshPrefix();
    const queues = topology(prefix);
    const inbox = new Inbox({
      url: proxy.through(url),
      name: 'inbox',
      heartbeatS: 1,
      prefetch: 10,
      deadMaxMessages: 10,
      queues,
      onMessage: () => undefined,
      onForeign: () => undefined,
      onError: () => undefined,
    });
    const [endpointId, other] = [newId<EndpointId>(Date.now()), newId<EndpointId>(Date.now())];
    const named = { endpointId: other, deliveryId: newId<DeliveryId>(Date.now()) };
    inbox.start();
    await until(
      'a connection',
      () => inbox.isUp,
      (isUp) => isUp,
    );
    inbox.add([{ endpointId, deliveryId: newId<DeliveryId>(Date.now()) }]);
    await onBroker(url, async (channel) => void channel.sendToQueue(queues.ready, encodeMessage([named])));
    await until(
      'the message',
      () => inbox.waitingFor(other),
      (waiting) => waiting === 1,
    );
    expect(inbox.roomForOwn(10)).toBe(0);
    proxy.cut();
    await until(
      'the loss',
      () => inbox.waitingFor(other),
      (waiting) => waiting === 0,
    );
    expect(inbox.waitingFor(endpointId)).toBe(1);
    expect(inbox.roomForOwn(10)).toBe(9);
    await inbox.close();
    await proxy.close();
    await onBroker(url, async (channel) => {
      for (const queue of [queues.ready, queues.dead, ...queues.retries]) await channel.deleteQueue(queue);
    });
  });
});
