import type { Permit } from '../coordination/port.ts';
import type { DeliveryTarget } from '../endpoints/index.ts';
import type { Transaction } from '../platform/db/database.ts';
import type { DeliveryId, EndpointId, EventId, TenantId } from '../shared/ids.ts';

/** One claimed delivery: leased to this process, with a permit for its endpoint and all that is needed to send it. */
export interface ClaimedWork {
  readonly deliveryId: DeliveryId;
  readonly eventId: EventId;
  readonly tenantId: TenantId;
  readonly endpointId: EndpointId;
  /** When the lease runs out at the earliest, on the process's monotonic clock (`performance.now()`): nothing may be sent that could end later. */
  readonly leaseEndsAtMs: number;
  /** Fencing token; every result carries it. */
  readonly leaseToken: string;
  /** Number of this attempt, from 1, rising through replays. */
  readonly attemptNumber: number;
  /** Attempts made before the last replay; they do not count against the limit. */
  readonly priorAttempts: number;
  readonly eventType: string;
  readonly contentType: string;
  /** Exactly the bytes received; null when the event's payload is large and is to be read when its turn comes. */
  readonly payload: Buffer | null;
  readonly payloadBytes: number;
  readonly attributes: Readonly<Record<string, string>> | null;
  readonly traceparent: string | null;
  readonly acceptedAtMs: number;
  readonly target: DeliveryTarget;
  readonly permit: Permit;
}

/** A delivery that has become due, as a transport is told of it. */
export interface DueWork {
  readonly endpointId: EndpointId;
  /** Milliseconds from now; 0 when it is due at once. */
  readonly inMs: number;
}

/** How many more deliveries the worker can take, and a way to wait for it to become more. */
export interface Capacity {
  free(): number;
  /** Called whenever a delivery has ended and there is more room. One listener. */
  onMore(listener: () => void): void;
}

/** A delivery whose work row is due at once, in the transaction that made the row or committed. */
export interface DueDelivery {
  readonly deliveryId: DeliveryId;
  readonly endpointId: EndpointId;
}

/**
 * How due deliveries reach workers. The database stays the authority: a transport may lose, repeat or delay everything it was told,
 * and all deliveries still run. Adapters: postgres (claims from the work table), rabbitmq (messages name what to claim). All pass
 * conformance.ts.
 */
export interface Transport {
  readonly name: 'postgres' | 'rabbitmq';

  /**
   * Null when the transport needs no messages. Otherwise acceptance writes an outbox row for each delivery, and a result one for each that
   * becomes due again in this many milliseconds or later, each in its own statement.
   */
  readonly outboxFromMs: number | null;

  /** Writes what the transport needs beside the work rows, in their transaction. */
  enqueue(tx: Transaction, deliveries: readonly DueDelivery[]): Promise<void>;

  /** Told after a commit that work has become due (at once or later), in this process. Other processes learn of it too. */
  announce(work: readonly DueWork[]): void;

  /** Told after a commit that an endpoint takes deliveries again, or takes none: every process looks again, and finds what was left waiting. */
  endpointChanged(endpointId: EndpointId): void;

  /** Batches of claimed work until the signal aborts; within the capacity and the endpoints' limits, fair over endpoints. */
  receive(capacity: Capacity, signal: AbortSignal): AsyncIterable<readonly ClaimedWork[]>;

  /** Told that results were committed, fenced off or given up to the end of their lease: a broker acknowledges its messages now. */
  settled(results: readonly { readonly leaseToken: string }[]): void;

  close(): Promise<void>;
}

/** A message for a broker. IDs and no state: that is read from the database. */
export interface OutgoingMessage {
  /** Its outbox row, or any other name that is unique in its batch. */
  readonly id: string;
  readonly deliveryId: DeliveryId;
  readonly endpointId: EndpointId;
  readonly queue: 'ready' | 'dead';
  /** Milliseconds until the delivery is due; at most 0 when it is. */
  readonly inMs: number;
  /** What operators want to know of a dead delivery; null for the ready queue. */
  readonly context: Readonly<Record<string, unknown>> | null;
}

export type PublishFailure = 'returned' | 'nacked' | 'unconfirmed' | 'disconnected';

/** Where outbox rows go. Never throws for what the broker does: what is not confirmed stays with the caller. */
export interface MessageBroker {
  readonly isConnected: boolean;
  /** @returns by message ID why it failed; what is absent was confirmed. Within the confirm time-out. */
  publish(messages: readonly OutgoingMessage[]): Promise<ReadonlyMap<string, PublishFailure>>;
}
