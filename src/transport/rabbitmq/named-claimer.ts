import type { PermitGrant } from '../../coordination/port.ts';
import { claimDeliveries, type ClaimedRow, findOpen } from '../../delivery/index.ts';
import type { DeliveryTarget } from '../../endpoints/index.ts';
import type { EndpointId } from '../../shared/ids.ts';
import { INLINE_PAYLOAD_BYTES, toWork } from '../claimed-work.ts';
import { type LaneClaimer, type LaneClaimerDeps, msUntilProbe } from '../lane-claimer.ts';
import type { ClaimedWork, MessageBroker, OutgoingMessage } from '../port.ts';
import type { Held, Inbox, Waiting } from './inbox.ts';
import type { NamedDelivery } from './message.ts';
import { SHORTEST_PAUSE_MS } from './topology.ts';

/** What became of messages; see the metric of that name. */
export type MessageFate = 'claimed' | 'left' | 'early' | 'stale' | 'foreign';

export interface NamedClaimerDeps extends Pick<
  LaneClaimerDeps,
  'database' | 'directory' | 'coordination' | 'config' | 'instance' | 'onClaim' | 'onError'
> {
  readonly inbox: Inbox;
  readonly broker: MessageBroker;
  readonly lanes: LaneClaimer;
  readonly onMessages?: (fate: MessageFate, count: number) => void;
  /** Done with deliveries that were handed over without a message. */
  readonly onOwnDone: (deliveries: readonly NamedDelivery[]) => void;
  /** Other processes are to look at the lane of an endpoint. */
  readonly tellOthers: (endpointId: EndpointId) => void;
  /** Messages wait again that had been taken. */
  readonly onPutBack: () => void;
}

/** An endpoint that had no free slot for this long leaves its messages to the database, so that they hold up no others. */
const FULL_MS = 50;

/** Claims the deliveries that wait in the inbox, and says what becomes of each message. */
export class NamedClaimer {
  readonly #deps: NamedClaimerDeps;
  readonly #inFlight = new Map<string, Waiting>();
  readonly #fullSinceMs = new Map<EndpointId, number>();
  #sorting: Promise<void> = Promise.resolve();
  #seenDueMs = 0;
  #seenAtMs = -Infinity;

  constructor(deps: NamedClaimerDeps) {
    this.#deps = deps;
  }

  /**
   * Database time up to which messages have come: the latest due time of a delivery that was claimed by its message.
   * @param withinMs how long ago a message may have been claimed by
   * @returns null when none was: messages that come for endpoints without room do not say how far they are
   */
  seenDueMs(withinMs: number): number | null {
    return performance.now() - this.#seenAtMs <= withinMs ? this.#seenDueMs : null;
  }

  /** Results were committed: their messages are acknowledged. */
  settled(results: readonly { readonly leaseToken: string }[]): void {
    const done: Waiting[] = [];
    for (const { leaseToken } of results) {
      const message = this.#inFlight.get(leaseToken);
      if (message === undefined) continue;
      this.#inFlight.delete(leaseToken);
      done.push(message);
    }
    this.#deps.inbox.acknowledge(messagesOf(done));
  }

  /** Done with these deliveries; counts those of messages. */
  drop(waiting: readonly Waiting[], fate: MessageFate): void {
    const messages = messagesOf(waiting);
    if (messages.length > 0) {
      this.#deps.inbox.acknowledge(messages);
      this.#deps.onMessages?.(fate, messages.length);
    }
    this.#ownDone(waiting);
  }

  /** Claims waiting deliveries, every endpoint its share of `room`. */
  async claim(room: number): Promise<ClaimedWork[]> {
    const asked = this.#deps.inbox.endpoints(room);
    const targets = await this.#deps.directory.targets(asked);
    const active: DeliveryTarget[] = [];
    for (const endpointId of asked) {
      const target = targets.get(endpointId);
      const isOpen = target?.state === 'active' && msUntilProbe(target, 0) === null;
      if (isOpen && !this.#deps.lanes.isReady(endpointId)) active.push(target);
      else {
        // The lane has older work of this endpoint, or probes it, or it takes none: its messages add nothing to what the database says.
        if (target?.state === 'active') this.#leaveToLane(endpointId, 0);
        else this.#leave(endpointId);
      }
    }
    if (active.length === 0) return [];
    const share = Math.max(1, Math.floor(room / active.length));
    const grants = await this.#deps.coordination.acquire(
      active.map(({ endpointId, limits }) => ({
        endpointId,
        wanted: Math.min(share, this.#deps.inbox.waitingFor(endpointId)),
        limits,
      })),
    );
    const taken = grants.map((grant, index) => this.#take(grant, active[index]!));
    return this.#claimTaken(taken);
  }

  /** The messages that there are permits for. */
  #take(grant: PermitGrant, target: DeliveryTarget): Taken {
    const { endpointId, permits, retryAfterMs } = grant;
    if (permits.length === 0) {
      const now = performance.now();
      const fullSinceMs = this.#fullSinceMs.get(endpointId) ?? now;
      this.#fullSinceMs.set(endpointId, fullSinceMs);
      if (retryAfterMs !== null || now - fullSinceMs >= FULL_MS) {
        this.#leaveToLane(endpointId, retryAfterMs ?? 0);
      }
      return { target, messages: [], permits };
    }
    this.#fullSinceMs.delete(endpointId);
    const messages = new Map<string, Waiting>();
    for (const message of this.#deps.inbox.take(endpointId, permits.length)) {
      // Twice in one hand: the second adds nothing.
      if (messages.has(message.deliveryId)) this.drop([message], 'stale');
      else messages.set(message.deliveryId, message);
    }
    return { target, messages: [...messages.values()], permits };
  }

  async #claimTaken(taken: readonly Taken[]): Promise<ClaimedWork[]> {
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
      this.#deps.inbox.putBack(messages);
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
    const own: Waiting[] = [];
    for (const { target, messages, permits } of taken) {
      let used = 0;
      for (const message of messages) {
        const row = byDelivery.get(message.deliveryId);
        // A message may name a delivery under an endpoint that is not its own: what it holds must not go there.
        if (row === undefined || row.endpoint_id !== target.endpointId) {
          without.push(message);
          continue;
        }
        if (message.message === null) own.push(message);
        else {
          this.#seenDueMs = Math.max(this.#seenDueMs, row.due_ms);
          this.#seenAtMs = performance.now();
          this.#inFlight.set(row.lease_token, message);
        }
        work.push(toWork(row, target, permits[used]!, leaseEndsAtMs));
        used += 1;
      }
      this.#deps.coordination.release(permits.slice(used), false);
    }
    if (work.length > own.length) this.#deps.onMessages?.('claimed', work.length - own.length);
    // From here on the lease says whose they are.
    this.#ownDone(own);
    if (without.length > 0) {
      const sorting = this.#sortOut(without);
      this.#sorting = this.#sorting.then(() => sorting);
    }
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
      this.drop(
        messages.filter((message) => !isOpen(message)),
        'stale',
      );
      await this.#postpone(
        messages.filter(isOpen).map((message) => ({ message, inMs: inMs.get(message.deliveryId)! })),
      );
    } catch (error) {
      this.#deps.onError(error, 'rabbitmq');
      this.#deps.inbox.putBack(messages);
      this.#deps.onPutBack();
    }
  }

  /** Not due, or leased by another worker: the message waits in a retry queue; for moments, this process keeps it in mind. Where there is no message, none is made. */
  async #postpone(early: readonly { message: Waiting; inMs: number }[]): Promise<void> {
    const long = early.filter(({ message, inMs }) => inMs >= SHORTEST_PAUSE_MS && message.message !== null);
    for (const { message, inMs } of early) {
      if (inMs < SHORTEST_PAUSE_MS) this.#deps.lanes.note(message.endpointId, Math.max(0, inMs));
      else if (message.message !== null) continue;
      this.drop([message], 'early');
    }
    if (long.length === 0) return;
    // When that fails, the sweep finds the delivery once it is due.
    await this.#deps.broker.publish(long.map(({ message, inMs }) => copyOf(message, inMs)));
    this.drop(
      long.map(({ message }) => message),
      'early',
    );
  }

  /** Resolves when what could not be claimed has gone where it belongs. */
  sorted(): Promise<void> {
    return this.#sorting;
  }

  /** A process that stops leaves to others at once what waited beside something that it has in flight. When that fails, their sweep finds it. */
  async passOn(left: readonly Waiting[]): Promise<void> {
    await this.#deps.broker.publish(left.map((one) => copyOf(one, 0)));
  }

  #ownDone(waiting: readonly Waiting[]): void {
    const own = waiting.filter(({ message }) => message === null);
    if (own.length > 0) this.#deps.onOwnDone(own);
  }

  /** As `leave`, of an endpoint that takes deliveries. No other process has heard of those that came without a message. */
  #leaveToLane(endpointId: EndpointId, inMs: number): void {
    const left = this.#leave(endpointId);
    this.#deps.lanes.note(endpointId, inMs);
    if (left.some(({ message }) => message === null)) this.#deps.tellOthers(endpointId);
  }

  /** All that waits of an endpoint: the deliveries stay due in the database. */
  #leave(endpointId: EndpointId): readonly Waiting[] {
    this.#fullSinceMs.delete(endpointId);
    const left = this.#deps.inbox.take(endpointId, Infinity);
    this.drop(left, 'left');
    return left;
  }
}

/** Messages for one endpoint with the permits that were granted for them; there may be fewer messages by now. */
interface Taken {
  readonly target: DeliveryTarget;
  readonly messages: readonly Waiting[];
  readonly permits: PermitGrant['permits'];
}

function messagesOf(waiting: readonly Waiting[]): Held[] {
  return waiting.flatMap(({ message }) => message ?? []);
}

function copyOf({ deliveryId, endpointId }: Waiting, inMs: number): OutgoingMessage {
  return { id: `again-${deliveryId}`, deliveryId, endpointId, queue: 'ready', inMs, context: null };
}
