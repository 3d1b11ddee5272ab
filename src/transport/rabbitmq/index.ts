import type { Lane } from '../../delivery/index.ts';
import { insertMessages } from '../../outbox/index.ts';
import type { Transaction } from '../../platform/db/database.ts';
import { sleep, Wakeup, within } from '../../shared/abort.ts';
import { type EndpointId, newId } from '../../shared/ids.ts';
import { LaneClaimer, type LaneClaimerDeps } from '../lane-claimer.ts';
import type { Capacity, ClaimedWork, DueDelivery, DueWork, Transport } from '../port.ts';
import { Wakeups } from '../wakeups.ts';
import { type QueueDepths, RabbitBroker } from './broker.ts';
import { type Held, Inbox } from './inbox.ts';
import { type MessageFate, NamedClaimer } from './named-claimer.ts';
import { topology } from './topology.ts';

export type { QueueDepths } from './broker.ts';

export interface RabbitTransportDeps extends Omit<LaneClaimerDeps, 'takesSwept' | 'onChange' | 'horizonMs'> {
  /** Outbox rows were committed: a publisher in this process may look. */
  readonly onOutbox: () => void;
  /** The outbox rows of deliveries that were handed over are not needed any more. */
  readonly onOwnDone: (deliveries: readonly DueDelivery[]) => void;
  /** Deliveries that were handed over and wait here, as this process stops: they need their messages after all. */
  readonly onOwnLeft: (deliveries: readonly DueDelivery[]) => void;
  readonly onMessages?: (fate: MessageFate, count: number) => void;
  /** Deliveries were claimed although no message had come for them. */
  readonly onOverdue?: (count: number) => void;
}

/** The state of the connections, for readiness. */
export interface BrokerState {
  readonly publishing: boolean;
  /** Null in a process that does not deliver. */
  readonly consuming: boolean | null;
}

/** Retries that are due sooner are kept in mind by this process; later ones are messages in a retry queue. */
const OUTBOX_FROM_MS = 2_000;
const ERROR_PAUSE_MS = 250;
/** Between two tries to put a message that is none of ours into the operators' queue. */
const FOREIGN_PAUSE_MS = 500;
/** How long a stop waits for what could not be claimed and is being looked up. */
const SORT_OUT_MS = 500;
/** How long a stop waits for the broker's confirm of what it passes on to others. */
const PASS_ON_MS = 500;

/**
 * RabbitMQ: a message says which delivery is due, the claim decides whether it is (DESIGN 4). A message is acknowledged when the result of its
 * delivery is committed. It is acknowledged at once when its delivery stays due in the database and this process will not send it now:
 * because its endpoint has no room (the *lane* of the endpoint claims it as soon as there is room), or takes no deliveries. Every
 * worker's sweep finds what is overdue without a message; while the broker is away that is everything. docs/adr/0007 says why.
 */
export class RabbitTransport implements Transport {
  readonly name = 'rabbitmq';
  readonly outboxFromMs = OUTBOX_FROM_MS;
  readonly broker: RabbitBroker;
  readonly #deps: RabbitTransportDeps;
  readonly #inbox: Inbox;
  readonly #claimer: LaneClaimer;
  readonly #wakeup = new Wakeup();
  readonly #wakeups: Wakeups;
  readonly #named: NamedClaimer;
  /** Endpoints whose lane holds deliveries that a sweep found. */
  readonly #overdue = new Set<EndpointId>();
  #isConsuming = false;
  /** How many deliveries this process would take now. */
  #room: () => number = () => 0;

  constructor(deps: RabbitTransportDeps) {
    this.#deps = deps;
    const { config, instance } = deps;
    const queues = topology(config['rabbitmq.prefix']);
    const common = {
      url: config['rabbitmq.url'],
      heartbeatS: config['rabbitmq.heartbeatS'],
      deadMaxMessages: config['rabbitmq.deadMaxMessages'],
      queues,
      onError: (error: Error) => deps.onError(error, 'rabbitmq'),
    };
    this.broker = new RabbitBroker({
      ...common,
      name: `relayops:${instance}:publish`,
      confirmTimeoutMs: config['rabbitmq.confirmTimeoutMs'],
      onUp: deps.onOutbox,
    });
    this.#inbox = new Inbox({
      ...common,
      name: `relayops:${instance}:consume`,
      prefetch: config['rabbitmq.prefetch'],
      onMessage: () => this.#wakeup.ring(),
      onForeign: (message, content, reason) => void this.#keepForeign(message, content, reason),
    });
    this.#claimer = new LaneClaimer({
      ...deps,
      horizonMs: OUTBOX_FROM_MS,
      takesSwept: (lane) => this.#isOverdue(lane),
      onChange: () => this.#wakeup.ring(),
    });
    this.#named = new NamedClaimer({
      ...deps,
      inbox: this.#inbox,
      broker: this.broker,
      lanes: this.#claimer,
      onOwnDone: deps.onOwnDone,
      tellOthers: (endpointId) => this.#wakeups.tell(endpointId),
      onPutBack: () => this.#wakeup.ring(),
    });
    this.#wakeups = new Wakeups({
      database: deps.database,
      instance,
      onDue: (endpointIds) => this.#claimer.heard(endpointIds),
      onError: (error) => deps.onError(error, 'wakeups'),
    });
  }

  /** Connects for publishing. */
  start(): void {
    this.broker.start();
  }

  state(): BrokerState {
    return {
      publishing: this.broker.isConnected,
      consuming: this.#isConsuming ? this.#inbox.isUp : null,
    };
  }

  depths(): Promise<QueueDepths> {
    return this.broker.depths();
  }

  async enqueue(tx: Transaction, deliveries: readonly DueDelivery[]): Promise<void> {
    if (deliveries.length === 0) return;
    const now = Date.now();
    await insertMessages(
      tx,
      deliveries.map((delivery) => ({ ...delivery, outboxId: newId(now) })),
    );
  }

  announce(work: readonly DueWork[]): void {
    for (const { endpointId, inMs } of work) {
      if (inMs <= 0) this.#deps.onOutbox();
      else if (inMs < OUTBOX_FROM_MS) this.#claimer.note(endpointId, inMs);
      else this.#deps.onOutbox();
    }
    this.#wakeup.ring();
  }

  /**
   * Deliveries that were accepted in this process and are committed. While it has room and no message waits here, it claims them itself, without the way
   * through the broker; their outbox rows remain until then. docs/adr/0011 says why.
   * @returns those that it does not take: they need their messages
   */
  handOver(deliveries: readonly DueDelivery[]): readonly DueDelivery[] {
    const { config } = this.#deps;
    if (!config['rabbitmq.handOver']) return deliveries;
    const room = this.#inbox.roomForOwn(Math.min(this.#room(), config['delivery.claimBatch']));
    if (room === 0) return deliveries;
    const taken: DueDelivery[] = [];
    const rest: DueDelivery[] = [];
    for (const delivery of deliveries) {
      // What waits for room there is for all workers.
      const isTaken = taken.length < room && !this.#claimer.isReady(delivery.endpointId);
      (isTaken ? taken : rest).push(delivery);
    }
    if (taken.length > 0) {
      this.#inbox.add(taken);
      this.#wakeup.ring();
    }
    return rest;
  }

  endpointChanged(endpointId: EndpointId): void {
    this.#claimer.note(endpointId, 0);
    this.#wakeups.tell(endpointId);
    this.#wakeup.ring();
  }

  settled(results: readonly { readonly leaseToken: string }[]): void {
    this.#named.settled(results);
  }

  async *receive(capacity: Capacity, signal: AbortSignal): AsyncIterable<readonly ClaimedWork[]> {
    this.#isConsuming = true;
    this.#inbox.start();
    await this.#wakeups.listen();
    capacity.onMore(() => this.#wakeup.ring());
    this.#room = () => (signal.aborted ? 0 : capacity.free());
    while (!signal.aborted) {
      try {
        const work = await this.#step(capacity, signal);
        if (work.length > 0) yield work;
      } catch (error) {
        this.#deps.onError(error, 'claim');
        await sleep(ERROR_PAUSE_MS, signal);
      }
    }
    await within(SORT_OUT_MS, this.#named.sorted());
    const left = await this.#inbox.stop();
    this.#deps.onOwnLeft(left.filter(({ message }) => message === null));
    const beside = left.filter(({ message }) => message !== null);
    await within(PASS_ON_MS, this.#named.passOn(beside));
  }

  async close(): Promise<void> {
    await this.#claimer.close();
    await Promise.all([this.#wakeups.close(), this.#inbox.close(), this.broker.close()]);
  }

  /** One turn: claims what messages name and what lanes hold, or waits until there is something. */
  async #step(capacity: Capacity, signal: AbortSignal): Promise<ClaimedWork[]> {
    await this.#claimer.lookAround();
    const room = Math.min(capacity.free(), this.#deps.config['delivery.claimBatch']);
    const hasMessages = !this.#inbox.isEmpty;
    const hasLanes = this.#claimer.hasReady;
    if (room > 0 && (hasMessages || hasLanes)) {
      const forMessages = hasLanes ? Math.ceil(room / 2) : room;
      const [named, lanes] = await Promise.allSettled([
        hasMessages ? this.#named.claim(forMessages) : [],
        hasLanes ? this.#claimLanes(hasMessages ? room - forMessages : room) : [],
      ]);
      // What one brought is leased: it is sent, even when the other failed.
      const work = [named, lanes].flatMap((claim) => (claim.status === 'fulfilled' ? claim.value : []));
      if (work.length > 0) return work;
      for (const claim of [named, lanes]) if (claim.status === 'rejected') throw claim.reason;
    }
    await this.#wakeup.wait(this.#claimer.idleMs(), signal);
    return [];
  }

  async #claimLanes(room: number): Promise<ClaimedWork[]> {
    const work = await this.#claimer.claim(await this.#claimer.permitsInTurn(room));
    const overdue = work.filter((one) => this.#overdue.has(one.endpointId)).length;
    if (overdue > 0) this.#deps.onOverdue?.(overdue);
    for (const endpointId of this.#overdue)
      if (!this.#claimer.isReady(endpointId)) this.#overdue.delete(endpointId);
    return work;
  }

  /** What is none of ours goes to the operators' queue with the reason, and must not come round again. */
  async #keepForeign(message: Held, content: Buffer, reason: string): Promise<void> {
    for (let tries = 0; this.#inbox.holds(message); tries += 1) {
      const failure = await this.broker.keep(`foreign-${message.tag}`, content, { reason });
      if (failure === null) {
        this.#inbox.acknowledge([message]);
        this.#deps.onMessages?.('foreign', 1);
        return;
      }
      // It takes a place of the prefetch until it is kept, or its connection ends and it comes again.
      if (tries === 0)
        this.#deps.onError(new Error(`a message (${reason}) could not be kept yet: ${failure}`), 'rabbitmq');
      await sleep(FOREIGN_PAUSE_MS);
    }
  }

  /**
   * Whether the message of an endpoint's earliest claimable delivery should have come by now. Messages come in about the order of their due times:
   * what is due earlier than the latest that came, by more than the allowance, has none. When the queue is empty or away, or no message has led to a claim for
   * as long as that, its own time decides.
   */
  #isOverdue(lane: Lane): boolean {
    const allowanceMs = this.#deps.config['rabbitmq.overdueMs'];
    if (lane.in_ms > 0) return false;
    // It is claimed from the table, and has to know where that begins: what its messages name is older when a worker vanished.
    if (this.#claimer.isReady(lane.endpoint_id)) return true;
    const seenDueMs = this.#inbox.isQuiet() ? null : this.#named.seenDueMs(allowanceMs);
    const lateMs = seenDueMs === null ? -lane.in_ms : seenDueMs - lane.due_ms;
    if (lateMs <= allowanceMs) return false;
    this.#overdue.add(lane.endpoint_id);
    return true;
  }
}
