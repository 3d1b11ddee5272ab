import { AmqpLink, type ConfirmChannel } from '../../platform/amqp/link.ts';
import type { MessageBroker, OutgoingMessage, PublishFailure } from '../port.ts';
import { encodeMessage, MAX_DELIVERIES, MESSAGE_TYPE } from './message.ts';
import { declareTopology, queueFor, type Topology } from './topology.ts';

export interface RabbitBrokerOptions {
  readonly url: string;
  readonly name: string;
  readonly heartbeatS: number;
  readonly confirmTimeoutMs: number;
  readonly deadMaxMessages: number;
  readonly queues: Topology;
  readonly onError: (error: Error) => void;
  /** It can be published again. */
  readonly onUp?: () => void;
}

/** Messages in each queue, as the broker counts them; `retry` is the sum over the retry queues. */
export interface QueueDepths {
  readonly ready: number;
  readonly retry: number;
  readonly dead: number;
}

/** One message on its way, under the ID of its first delivery's row. `settle` counts once. */
interface Sent {
  readonly id: string;
  failure: PublishFailure | null;
  settle: (failure: PublishFailure | null) => void;
}

/** Publishes on a connection of its own, so that a broker which holds back publishers does not hold back acknowledgements. */
export class RabbitBroker implements MessageBroker {
  readonly #options: RabbitBrokerOptions;
  readonly #link: AmqpLink;
  #channel: ConfirmChannel | undefined;
  #isBlocked = false;
  readonly #pending = new Set<Sent>();
  /** For what is returned, which names its message by ID alone: the last that was sent under it. */
  readonly #byId = new Map<string, Sent>();

  constructor(options: RabbitBrokerOptions) {
    this.#options = options;
    this.#link = new AmqpLink({
      url: options.url,
      name: options.name,
      heartbeatS: options.heartbeatS,
      setup: async (connection) => {
        connection.on('blocked', () => (this.#isBlocked = true));
        connection.on('unblocked', () => {
          this.#isBlocked = false;
          options.onUp?.();
        });
        const channel = await connection.createConfirmChannel();
        // Until the link watches it.
        channel.on('error', () => undefined);
        await declareTopology(channel, options.queues, options.deadMaxMessages);
        channel.on('return', ({ fields, properties }) =>
          this.#returned(String(properties.messageId), fields.routingKey),
        );
        this.#channel = channel;
        return [channel];
      },
      onUp: () => {
        this.#isBlocked = false;
        options.onUp?.();
      },
      onDown: () => this.#failAll(),
      onError: options.onError,
    });
  }

  start(): void {
    this.#link.start();
  }

  /** Connected, and the broker takes messages (it holds publishers back when its memory or disk runs out). */
  get isConnected(): boolean {
    return this.#link.isUp && !this.#isBlocked;
  }

  async publish(messages: readonly OutgoingMessage[]): Promise<ReadonlyMap<string, PublishFailure>> {
    if (messages.length === 0) return new Map();
    const failed = new Map<string, PublishFailure>();
    const channel = this.#channel;
    if (!this.isConnected || channel === undefined) {
      for (const { id } of messages) failed.set(id, 'disconnected');
      return failed;
    }
    const { promise: done, resolve } = Promise.withResolvers<void>();
    const bundles = bundled(messages, this.#options.queues);
    let open = bundles.length;
    const sent = bundles.map((bundle) =>
      this.#track(bundle.messages[0]!.id, (failure) => {
        if (failure) for (const { id } of bundle.messages) failed.set(id, failure);
        open -= 1;
        if (open === 0) resolve();
      }),
    );
    bundles.forEach((bundle, index) => this.#publishBundle(channel, bundle, sent[index]!));
    if (open > 0) await this.#confirmed(done, sent);
    return failed;
  }

  /** Puts a message of another kind into the operators' queue as it is. @returns why not, or null */
  async keep(
    id: string,
    content: Buffer,
    headers: Readonly<Record<string, unknown>>,
  ): Promise<PublishFailure | null> {
    const channel = this.#channel;
    if (!this.isConnected || channel === undefined) return 'disconnected';
    const { promise: done, resolve } = Promise.withResolvers<void>();
    let failed: PublishFailure | null = null;
    const sent = this.#track(id, (failure) => {
      failed = failure;
      resolve();
    });
    this.#send(channel, this.#options.queues.dead, content, { ...headers }, sent);
    await this.#confirmed(done, [sent]);
    return failed;
  }

  /** Asks the broker; by a channel of its own, since asking for a queue that is gone closes the channel. @throws when it cannot say */
  async depths(): Promise<QueueDepths> {
    const { queues } = this.#options;
    const { connection } = this.#link;
    if (connection === undefined) throw new Error('not connected to the broker');
    const channel = await connection.createChannel();
    channel.on('error', () => undefined);
    try {
      const count = async (queue: string): Promise<number> => (await channel.checkQueue(queue)).messageCount;
      const retries = await Promise.all(queues.retries.map(count));
      return {
        ready: await count(queues.ready),
        retry: retries.reduce((sum, n) => sum + n, 0),
        dead: await count(queues.dead),
      };
    } finally {
      await channel.close().catch(() => undefined);
    }
  }

  async close(): Promise<void> {
    await this.#link.close();
  }

  #track(id: string, onSettled: (failure: PublishFailure | null) => void): Sent {
    const sent: Sent = {
      id,
      failure: null,
      settle: (failure) => {
        if (!this.#pending.delete(sent)) return;
        if (this.#byId.get(id) === sent) this.#byId.delete(id);
        onSettled(sent.failure ?? failure);
      },
    };
    this.#pending.add(sent);
    this.#byId.set(id, sent);
    return sent;
  }

  #publishBundle(channel: ConfirmChannel, { queue, messages }: Bundle, sent: Sent): void {
    this.#send(channel, queue, encodeMessage(messages), messages[0]!.context ?? undefined, sent);
  }

  #send(channel: ConfirmChannel, queue: string, content: Buffer, headers: unknown, sent: Sent): void {
    const options = {
      persistent: true,
      // The default exchange returns what no queue takes.
      mandatory: true,
      messageId: sent.id,
      type: MESSAGE_TYPE,
      contentType: 'application/json',
      headers,
    };
    try {
      channel.publish('', queue, content, options, (error: unknown) =>
        sent.settle(error ? failureOf(error) : null),
      );
    } catch {
      // The channel was closed under way.
      sent.settle('disconnected');
    }
  }

  /** What the broker returns it confirms as well, right after. No queue took it: one is missing, and the next connection declares it. */
  #returned(id: string, queue: string): void {
    const sent = this.#byId.get(id);
    if (sent) sent.failure = 'returned';
    this.#link.restart(new Error(`the queue ${queue} is gone`));
  }

  /** A broker that does not confirm in time is given up: its connection starts anew. */
  async #confirmed(done: Promise<void>, sent: readonly Sent[]): Promise<void> {
    const timer = setTimeout(() => {
      for (const one of sent) one.settle('unconfirmed');
      this.#link.restart(new Error(`no confirm within ${this.#options.confirmTimeoutMs} ms`));
    }, this.#options.confirmTimeoutMs);
    await done;
    clearTimeout(timer);
  }

  #failAll(): void {
    this.#channel = undefined;
    for (const sent of [...this.#pending]) sent.settle('unconfirmed');
  }
}

/** What goes to the broker as one message. */
interface Bundle {
  readonly queue: string;
  readonly messages: OutgoingMessage[];
}

/** Deliveries for one queue share messages; a dead letter is a message of its own, with its context. */
function bundled(messages: readonly OutgoingMessage[], queues: Topology): Bundle[] {
  const bundles: Bundle[] = [];
  const open = new Map<string, Bundle>();
  for (const message of messages) {
    if (message.queue === 'dead') {
      bundles.push({ queue: queues.dead, messages: [message] });
      continue;
    }
    const queue = queueFor(queues, message.inMs);
    let bundle = open.get(queue);
    if (bundle === undefined || bundle.messages.length >= MAX_DELIVERIES) {
      bundle = { queue, messages: [] };
      open.set(queue, bundle);
      bundles.push(bundle);
    }
    bundle.messages.push(message);
  }
  return bundles;
}

/** The library says one of two things: the broker refused the message, or the channel was closed before it answered. */
function failureOf(error: unknown): PublishFailure {
  return error instanceof Error && error.message.includes('nacked') ? 'nacked' : 'unconfirmed';
}
