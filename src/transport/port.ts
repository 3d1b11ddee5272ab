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

/** A delivery's identity in the transaction that created its work row. */
export interface EnqueuedDelivery {
  readonly deliveryId: DeliveryId;
  readonly endpointId: EndpointId;
}

/**
 * How due deliveries reach workers. The database stays the authority: a transport may lose, repeat or delay everything it was told,
 * and all deliveries still run. Adapters: postgres (claims from the work table). All pass conformance.ts.
 */
export interface Transport {
  readonly name: 'postgres' | 'rabbitmq';

  /** Writes what the transport needs beside the work rows, in their transaction. */
  enqueue(tx: Transaction, deliveries: readonly EnqueuedDelivery[]): Promise<void>;

  /** Told after a commit that work has become due (at once or later), in this process. Other processes learn of it too. */
  announce(work: readonly DueWork[]): void;

  /** Batches of claimed work until the signal aborts; within the capacity and the endpoints' limits, fair over endpoints. */
  receive(capacity: Capacity, signal: AbortSignal): AsyncIterable<readonly ClaimedWork[]>;

  /** Told that results were committed (or fenced off): a broker acknowledges its messages now. */
  settled(work: readonly ClaimedWork[]): Promise<void>;

  close(): Promise<void>;
}
