import type { EndpointId } from '../shared/ids.ts';

/** A token bucket's shape: `burst` tokens at most, refilled at `ratePerSecond`. */
export interface BucketLimit {
  readonly ratePerSecond: number;
  readonly burst: number;
}

/** What one endpoint may use over all processes. */
export interface EndpointLimits {
  /** Requests in flight. */
  readonly maxConcurrency: number;
  /** Requests per second, or null for no limit. First tries and retries draw from the same bucket. */
  readonly rate: BucketLimit | null;
}

export interface PermitRequest {
  readonly endpointId: EndpointId;
  /** How many deliveries could start now. */
  readonly wanted: number;
  readonly limits: EndpointLimits;
}

/** The right to have one request to one endpoint in flight, until released or expired. */
export interface Permit {
  readonly endpointId: EndpointId;
}

export interface PermitGrant {
  readonly endpointId: EndpointId;
  /** Up to `wanted` permits. */
  readonly permits: Permit[];
  /** When fewer than wanted for want of tokens: milliseconds until the next token. Null when only slots are short. */
  readonly retryAfterMs: number | null;
}

export type TakeResult = { readonly ok: true } | { readonly ok: false; readonly retryAfterMs: number };

/**
 * Limits that several workers share: token buckets and concurrency slots. Adapters: memory (one process). All pass
 * conformance.ts. Refusal is a value; an adapter whose server is away goes on with local limits and says so.
 */
export interface Coordination {
  /** Takes `n` tokens from a named bucket, all or none. A request above the burst can never succeed and is refused as such. */
  take(bucket: string, n: number, limit: BucketLimit): Promise<TakeResult>;

  /** Takes `n` tokens whether they are there or not. What is missing is a debt, of the burst at most: it is paid before the next `take`. */
  charge(bucket: string, n: number, limit: BucketLimit): Promise<void>;

  /** Takes slots and tokens for deliveries, in one round for all endpoints of a batch. The answer keeps the order of the requests. */
  acquire(requests: readonly PermitRequest[]): Promise<PermitGrant[]>;

  /** Gives slots back. `used: false` returns the token too: nothing was sent. Releasing twice has no effect. */
  release(permits: readonly Permit[], used: boolean): void;

  /** Permits held now, by endpoint: for metrics. */
  held(): ReadonlyMap<EndpointId, number>;

  close(): Promise<void>;
}
