import type { PermitGrant } from '../../coordination/port.ts';
import { claimDeliveries, type ClaimedRow, findOpen, type Lane } from '../../delivery/index.ts';
import type { DeliveryTarget } from '../../endpoints/index.ts';
import { insertMessages } from '../../outbox/index.ts';
import type { Transaction } from '../../platform/db/database.ts';
import { sleep, Wakeup } from '../../shared/abort.ts';
import { type EndpointId, newId } from '../../shared/ids.ts';
import { INLINE_PAYLOAD_BYTES, toWork } from '../claimed-work.ts';
import { LaneClaimer, type LaneClaimerDeps, msUntilProbe } from '../lane-claimer.ts';
import type { Capacity, ClaimedWork, DueDelivery, DueWork, OutgoingMessage, Transport } from '../port.ts';
import { Wakeups } from '../wakeups.ts';
import { type QueueDepths, RabbitBroker } from './broker.ts';
import { type Held, Inbox, type Waiting } from './inbox.ts';
import { SHORTEST_PAUSE_MS, topology } from './topology.ts';

export type { QueueDepths } from './broker.ts';

/** What became of messages; see the metric of that name. */
export type MessageFate = 'claimed' | 'left' | 'early' | 'stale' | 'foreign';

export interface RabbitTransportDeps extends Omit<LaneClaimerDeps, 'takesSwept' | 'onChange' | 'horizonMs'> {
  /** Outbox rows were committed: a publisher in this process may look. */
  readonly onOutbox: () => void;
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
/** An endpoint that had no free slot for this long leaves its messages to the database, so that they hold up no others. */
const FULL_MS = 50;

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
  readonly #inFlight = new Map<string, Waiting>();
  readonly #fullSinceMs = new Map<EndpointId, number>();
  /** Database time up to which messages have come: the latest due time of a delivery that was claimed by its message. */
  #seenDueMs = 0;
  /** Endpoints whose lane holds deliveries that a sweep found. */
  readonly #overdue = new Set<EndpointId>();
  #isConsuming = false;

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

  endpointChanged(endpointId: EndpointId): void {
    this.#claimer.note(endpointId, 0);
    this.#wakeups.tell(endpointId);
    this.#wakeup.ring();
  }

  settled(results: readonly { readonly leaseToken: string }[]): void {
    const done: Waiting[] = [];
    for (const { leaseToken } of results) {
      const message = this.#inFlight.get(leaseToken);
      if (message === undefined) continue;
      this.#inFlight.delete(leaseToken);
      done.push(message);
    }
    this.#inbox.acknowledge(done);
  }

  async *receive(capacity: Capacity, signal: AbortSignal): AsyncIterable<readonly ClaimedWork[]> {
    this.#isConsuming = true;
    this.#inbox.start();
    await this.#wakeups.listen();
    capacity.onMore(() => this.#wakeup.ring());
    while (!signal.aborted) {
      try {
        const work = await this.#step(capacity, signal);
        if (work.length > 0) yield work;
      } catch (error) {
        this.#deps.onError(error, 'claim');
        await sleep(ERROR_PAUSE_MS, signal);
      }
    }
    await this.#inbox.stop();
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
        hasMessages ? this.#claimNamed(forMessages) : [],
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

  /** Claims deliveries by the messages that name them, every endpoint its share of `room`. */
  async #claimNamed(room: number): Promise<ClaimedWork[]> {
    const asked = this.#inbox.endpoints(room);
    const targets = await this.#deps.directory.targets(asked);
    const active: DeliveryTarget[] = [];
    for (const endpointId of asked) {
      const target = targets.get(endpointId);
      const isOpen = target?.state === 'active' && msUntilProbe(target, 0) === null;
      if (isOpen && !this.#claimer.isReady(endpointId)) active.push(target);
      else {
        // The lane has older work of this endpoint, or probes it, or it takes none: its messages add nothing to what the database says.
        this.#leave(endpointId);
        if (target?.state === 'active') this.#claimer.note(endpointId, 0);
      }
    }
    if (active.length === 0) return [];
    const share = Math.max(1, Math.floor(room / active.length));
    const grants = await this.#deps.coordination.acquire(
      active.map(({ endpointId, limits }) => ({
        endpointId,
        wanted: Math.min(share, this.#inbox.waitingFor(endpointId)),
        limits,
      })),
    );
    const taken = grants.map((grant, index) => this.#take(grant, active[index]!));
    return this.#claim(taken);
  }

  /** The messages that there are permits for. */
  #take(grant: PermitGrant, target: DeliveryTarget): Taken {
    const { endpointId, permits, retryAfterMs } = grant;
    if (permits.length === 0) {
      const now = performance.now();
      const fullSinceMs = this.#fullSinceMs.get(endpointId) ?? now;
      this.#fullSinceMs.set(endpointId, fullSinceMs);
      if (retryAfterMs !== null || now - fullSinceMs >= FULL_MS) {
        this.#leave(endpointId);
        this.#claimer.note(endpointId, retryAfterMs ?? 0);
      }
      return { target, messages: [], permits };
    }
    this.#fullSinceMs.delete(endpointId);
    const messages = new Map<string, Waiting>();
    for (const message of this.#inbox.take(endpointId, permits.length)) {
      // Twice in one hand: the second adds nothing.
      if (messages.has(message.deliveryId)) this.#drop([message], 'stale');
      else messages.set(message.deliveryId, message);
    }
    return { target, messages: [...messages.values()], permits };
  }

  async #claim(taken: readonly Taken[]): Promise<ClaimedWork[]> {
    const { database, config, instance, coordination, onClaim } = this.#deps;
    const messages = taken.flatMap((one) => one.messages);
    if (messages.length === 0) {
      for (const { permits } of taken) coordination.release(permits, false);
      return [];
    }
    const started = performance.now();
    let rows: ClaimedRow[];
    try {
      const lease = { ms: config['delivery.leaseMs'], worker: instance };
      rows = await claimDeliveries(database.delivery, messages, lease, INLINE_PAYLOAD_BYTES);
    } catch (error) {
      for (const { permits } of taken) coordination.release(permits, false);
      this.#inbox.putBack(messages);
      throw error;
    }
    if (rows.length > 0)
      onClaim?.({
        durationMs: performance.now() - started,
        rows: rows.length,
        lostAttempts: rows.filter((row) => row.after_lost).length,
      });
    return this.#handOut(taken, rows, started + config['delivery.leaseMs']);
  }

  /** Joins rows with messages and permits, and deals with the messages that brought nothing. */
  #handOut(taken: readonly Taken[], rows: readonly ClaimedRow[], leaseEndsAtMs: number): ClaimedWork[] {
    const byDelivery = new Map(rows.map((row) => [row.delivery_id, row]));
    const work: ClaimedWork[] = [];
    const without: Waiting[] = [];
    for (const { target, messages, permits } of taken) {
      let used = 0;
      for (const message of messages) {
        const row = byDelivery.get(message.deliveryId);
        if (row === undefined) {
          without.push(message);
          continue;
        }
        this.#seenDueMs = Math.max(this.#seenDueMs, row.due_ms);
        this.#inFlight.set(row.lease_token, message);
        work.push(toWork(row, target, permits[used]!, leaseEndsAtMs));
        used += 1;
      }
      this.#deps.coordination.release(permits.slice(used), false);
    }
    this.#deps.onMessages?.('claimed', work.length);
    if (without.length > 0) void this.#sortOut(without);
    return work;
  }

  /** Messages whose delivery could not be claimed: ended, in other hands, or not due yet. */
  async #sortOut(messages: readonly Waiting[]): Promise<void> {
    try {
      const found = await findOpen(
        this.#deps.database.delivery,
        messages.map((message) => message.deliveryId),
      );
      const inMs = new Map(found.map((row) => [row.delivery_id, row.in_ms]));
      const isOpen = (message: Waiting): boolean => inMs.has(message.deliveryId);
      this.#drop(
        messages.filter((message) => !isOpen(message)),
        'stale',
      );
      await this.#postpone(
        messages.filter(isOpen).map((message) => ({ message, inMs: inMs.get(message.deliveryId)! })),
      );
    } catch (error) {
      this.#deps.onError(error, 'rabbitmq');
      this.#inbox.putBack(messages);
      this.#wakeup.ring();
    }
  }

  /** Not due, or leased by another worker: the message waits in a retry queue; for moments, this process keeps it in mind. */
  async #postpone(early: readonly { message: Waiting; inMs: number }[]): Promise<void> {
    const long = early.filter(({ inMs }) => inMs >= SHORTEST_PAUSE_MS);
    for (const { message, inMs } of early) {
      if (inMs >= SHORTEST_PAUSE_MS) continue;
      this.#claimer.note(message.endpointId, Math.max(0, inMs));
      this.#drop([message], 'early');
    }
    if (long.length === 0) return;
    const copies = long.map(({ message, inMs }): OutgoingMessage => ({
      id: `again-${message.tag}`,
      deliveryId: message.deliveryId,
      endpointId: message.endpointId,
      queue: 'ready',
      inMs,
      context: null,
    }));
    await this.broker.publish(copies);
    // When that failed, the sweep finds the delivery once it is due.
    this.#drop(
      long.map(({ message }) => message),
      'early',
    );
  }

  /** All waiting messages of an endpoint whose deliveries stay due in the database. */
  #leave(endpointId: EndpointId): void {
    this.#fullSinceMs.delete(endpointId);
    this.#drop(this.#inbox.take(endpointId, Infinity), 'left');
  }

  #drop(messages: readonly Held[], fate: MessageFate): void {
    if (messages.length === 0) return;
    this.#inbox.acknowledge(messages);
    this.#deps.onMessages?.(fate, messages.length);
  }

  /** What is none of ours goes to the operators' queue with the reason, and must not come round again. */
  async #keepForeign(message: Held, content: Buffer, reason: string): Promise<void> {
    const failure = await this.broker.keep(`foreign-${message.tag}`, content, { reason });
    // Left open, it comes again on another connection.
    if (failure === null) this.#drop([message], 'foreign');
    else this.#deps.onError(new Error(`a message (${reason}) could not be kept: ${failure}`), 'rabbitmq');
  }

  /**
   * Whether the message of an endpoint's earliest claimable delivery should have come by now. Messages come in about the order of their due times:
   * what is due earlier than the latest that came, by more than the allowance, has none. When the queue is empty, or away, its own time decides.
   */
  #isOverdue(lane: Lane): boolean {
    const allowanceMs = this.#deps.config['rabbitmq.overdueMs'];
    if (lane.in_ms > 0) return false;
    const lateMs = this.#inbox.isQuiet() ? -lane.in_ms : this.#seenDueMs - lane.due_ms;
    if (lateMs <= allowanceMs) return false;
    if (!this.#claimer.isReady(lane.endpoint_id)) this.#overdue.add(lane.endpoint_id);
    return true;
  }
}

/** Messages for one endpoint with the permits that were granted for them; there may be fewer messages by now. */
interface Taken {
  readonly target: DeliveryTarget;
  readonly messages: readonly Waiting[];
  readonly permits: PermitGrant['permits'];
}
