import { AmqpLink, type Channel, type ConsumeMessage } from '../../platform/amqp/link.ts';
import { within } from '../../shared/abort.ts';
import type { EndpointId } from '../../shared/ids.ts';
import { Acknowledgements } from './acknowledgements.ts';
import { decodeMessage, type NamedDelivery } from './message.ts';
import { declareTopology, type Topology } from './topology.ts';

export interface InboxOptions {
  readonly url: string;
  readonly name: string;
  readonly heartbeatS: number;
  readonly prefetch: number;
  readonly deadMaxMessages: number;
  readonly queues: Topology;
  readonly onMessage: () => void;
  /** A message that is none of ours, and why. To be acknowledged once it is kept elsewhere. */
  readonly onForeign: (message: Held, content: Buffer, reason: string) => void;
  readonly onError: (error: Error) => void;
}

/** A message that the broker holds for us until it is acknowledged, or until the channel is gone: then it comes again, to anyone. */
export interface Held {
  readonly tag: number;
  readonly channel: Channel;
  /** Deliveries in it with which nobody is done. */
  open: number;
}

/** A delivery that a message names, or that this process has accepted itself: then there is no message. */
export interface Waiting extends NamedDelivery {
  readonly message: Held | null;
}

/** Nothing came for this long although there was room: the queue is empty. */
const QUIET_MS = 1_000;
/** Acknowledgements are gathered for this long, or until there are so many: each frame is an entry in the queue's log, and nobody waits for it. */
const ACKNOWLEDGE_AFTER_MS = 20;
const ACKNOWLEDGE_AT = 64;
const CANCEL_MS = 500;

/**
 * What waits for its turn here, by endpoint: what messages from the ready queue name, and what this process was handed without one. At most `prefetch`
 * messages are held: those of which something waits, and those of which something is in flight.
 */
export class Inbox {
  readonly #options: InboxOptions;
  readonly #link: AmqpLink;
  readonly #waiting = new Map<EndpointId, Waiting[]>();
  #channel: Channel | undefined;
  #consumerTag: string | undefined;
  #acknowledgements = new Acknowledgements(() => undefined);
  /** Tags of messages that are done and not acknowledged yet. */
  #done: number[] = [];
  #doneTimer: NodeJS.Timeout | undefined;
  #open = 0;
  /** Waiting deliveries without a message. */
  #own = 0;
  /** Waiting deliveries with one. */
  #named = 0;
  #arrivedAtMs = 0;
  #isStopped = false;

  constructor(options: InboxOptions) {
    this.#options = options;
    this.#link = new AmqpLink({
      url: options.url,
      name: options.name,
      heartbeatS: options.heartbeatS,
      setup: async (connection) => {
        const channel = await connection.createChannel();
        // Until the link watches it.
        channel.on('error', () => undefined);
        await this.#consume(channel);
        return [channel];
      },
      onUp: options.onMessage,
      onDown: () => this.#forget(),
      onError: options.onError,
    });
  }

  get isUp(): boolean {
    return this.#link.isUp;
  }

  start(): void {
    this.#link.start();
  }

  /** Whether the ready queue has nothing for us, or cannot be asked. */
  isQuiet(): boolean {
    if (!this.#link.isUp) return true;
    return this.#open < this.#options.prefetch && performance.now() - this.#arrivedAtMs > QUIET_MS;
  }

  /** Endpoints with waiting deliveries, those that had their turn longest ago first. */
  endpoints(limit: number): EndpointId[] {
    const found: EndpointId[] = [];
    for (const endpointId of this.#waiting.keys()) {
      if (found.length >= limit) break;
      found.push(endpointId);
    }
    return found;
  }

  waitingFor(endpointId: EndpointId): number {
    return this.#waiting.get(endpointId)?.length ?? 0;
  }

  get isEmpty(): boolean {
    return this.#waiting.size === 0;
  }

  /** How many deliveries without a message may wait beside those that do; none while messages wait here, or may wait in the queue, since they came first. */
  roomForOwn(limit: number): number {
    const isBehind = this.#named > 0 || this.#open >= this.#options.prefetch;
    return isBehind ? 0 : Math.max(0, limit - this.#own);
  }

  /** Deliveries that this process has accepted itself. */
  add(deliveries: readonly NamedDelivery[]): void {
    for (const { endpointId, deliveryId } of deliveries)
      this.#queue({ endpointId, deliveryId, message: null });
  }

  /** Deliveries of one endpoint, oldest first; what is left of it goes behind the other endpoints. */
  take(endpointId: EndpointId, limit: number): Waiting[] {
    const all = this.#waiting.get(endpointId) ?? [];
    const taken = all.splice(0, limit);
    this.#waiting.delete(endpointId);
    if (all.length > 0) this.#waiting.set(endpointId, all);
    for (const delivery of taken) this.#count(delivery, -1);
    return taken;
  }

  /** Whether the message is still ours to acknowledge: not once its connection is gone. */
  holds({ channel }: Held): boolean {
    return channel === this.#channel;
  }

  /** Back to the front of its endpoint: nothing became of them. */
  putBack(deliveries: readonly Waiting[]): void {
    for (const delivery of deliveries) {
      if (delivery.message !== null && !this.holds(delivery.message)) continue;
      const waiting = this.#waiting.get(delivery.endpointId);
      if (waiting) waiting.unshift(delivery);
      else this.#waiting.set(delivery.endpointId, [delivery]);
      this.#count(delivery, 1);
    }
  }

  /**
   * Done with these deliveries: a message of which nothing is left is acknowledged. Those of a channel that is gone cannot be, and come again.
   * @param messages one entry for each delivery, or a message as a whole when it names none
   */
  acknowledge(messages: readonly Held[]): void {
    for (const message of messages) {
      message.open -= 1;
      if (message.open <= 0 && message.channel === this.#channel) this.#done.push(message.tag);
    }
    if (this.#done.length >= ACKNOWLEDGE_AT) this.#sendAcknowledgements();
    else if (this.#done.length > 0)
      this.#doneTimer ??= setTimeout(() => this.#sendAcknowledgements(), ACKNOWLEDGE_AFTER_MS);
  }

  #sendAcknowledgements(): void {
    clearTimeout(this.#doneTimer);
    this.#doneTimer = undefined;
    if (this.#done.length === 0) return;
    const done = this.#done;
    this.#done = [];
    this.#open -= done.length;
    try {
      this.#acknowledgements.settle(done);
    } catch {
      // The channel is gone and nobody has told us yet: they come again, and are stale.
    }
  }

  /**
   * Takes nothing more; what waits goes back to the queue at once. What is in flight can still be acknowledged.
   * @returns what waited without a message, and in messages of which something is in flight: they cannot go back, and are acknowledged once that is done
   */
  async stop(): Promise<Waiting[]> {
    this.#isStopped = true;
    const channel = this.#channel;
    if (channel !== undefined && this.#consumerTag !== undefined)
      try {
        // A broker that does not answer would hold up the stop: what it still sends waits here, and goes back with the connection.
        await within(CANCEL_MS, channel.cancel(this.#consumerTag));
      } catch {
        // The channel is gone, and everything has gone back with it.
        this.#forget();
      }
    const waiting = this.endpoints(Infinity).flatMap((endpointId) => this.take(endpointId, Infinity));
    const messages = waiting.flatMap(({ message }) => message ?? []);
    for (const message of messages) message.open -= 1;
    const idle = new Set(messages.filter(({ open }) => open === 0));
    try {
      for (const { tag } of idle) channel?.nack(asMessage(tag), false, true);
    } catch {
      // As above.
    }
    return waiting.filter(({ message }) => message === null || message.open > 0);
  }

  async close(): Promise<void> {
    this.#sendAcknowledgements();
    await this.#link.close();
  }

  async #consume(channel: Channel): Promise<void> {
    const { queues, deadMaxMessages, prefetch } = this.#options;
    await declareTopology(channel, queues, deadMaxMessages);
    await channel.prefetch(prefetch);
    this.#channel = channel;
    this.#open = 0;
    this.#acknowledgements = new Acknowledgements((tag, multiple) => channel.ack(asMessage(tag), multiple));
    if (this.#isStopped) return;
    const { consumerTag } = await channel.consume(queues.ready, (message) => {
      if (message) this.#arrived(channel, message);
      // The queue was deleted: another connection declares it anew.
      else this.#link.restart(new Error(`the queue ${queues.ready} is gone`));
    });
    this.#consumerTag = consumerTag;
  }

  #arrived(channel: Channel, message: ConsumeMessage): void {
    this.#open += 1;
    this.#arrivedAtMs = performance.now();
    const held: Held = { tag: message.fields.deliveryTag, channel, open: 1 };
    const body = decodeMessage(message.content);
    if (typeof body === 'string') return this.#options.onForeign(held, message.content, body);
    held.open = body.length;
    for (const { endpointId, deliveryId } of body) this.#queue({ message: held, endpointId, deliveryId });
    this.#options.onMessage();
  }

  #queue(delivery: Waiting): void {
    const waiting = this.#waiting.get(delivery.endpointId);
    if (waiting) waiting.push(delivery);
    else this.#waiting.set(delivery.endpointId, [delivery]);
    this.#count(delivery, 1);
  }

  #count({ message }: Waiting, change: 1 | -1): void {
    if (message === null) this.#own += change;
    else this.#named += change;
  }

  /** The connection is gone, and with it all that it brought. */
  #forget(): void {
    this.#channel = undefined;
    this.#consumerTag = undefined;
    this.#done = [];
    this.#open = 0;
    const own = [...this.#waiting.values()].flat().filter(({ message }) => message === null);
    this.#waiting.clear();
    this.#own = 0;
    this.#named = 0;
    this.add(own);
  }
}

/** The library wants the message and uses its tag. */
function asMessage(tag: number): ConsumeMessage {
  return { fields: { deliveryTag: tag } } as ConsumeMessage;
}
