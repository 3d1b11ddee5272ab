import type { KeyObject } from 'node:crypto';
import type { Config } from '../config/index.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';
import type { SealedHeaders } from './sealed-headers.ts';

export type EndpointState = 'active' | 'paused' | 'disabled' | 'deleted';

/**
 * A signing secret in force; an old one has an end. As a key object: an HMAC with raw bytes makes one anew each time, which was 18 of
 * the 100 µs that a delivery cost in this process.
 */
export interface SigningSecret {
  readonly key: KeyObject;
  readonly expiresAtMs: number | null;
}

/** What is known of an endpoint whose last attempts failed, over all processes. */
export interface FailingHealth {
  readonly failures: number;
  /** While the breaker is open: when it may be probed, on this process's monotonic clock (`performance.now()`). */
  readonly probeAtMs: number | null;
}

/** All that a delivery needs to know of its endpoint, with defaults applied. */
export interface DeliveryTarget {
  readonly endpointId: EndpointId;
  readonly tenantId: TenantId;
  readonly version: number;
  readonly url: string;
  readonly state: EndpointState;
  /** Null while its last attempt was no failure. */
  readonly failing: FailingHealth | null;
  readonly headers: Readonly<Record<string, string>>;
  readonly secrets: readonly SigningSecret[];
  readonly timeoutMs: number;
  readonly limits: {
    readonly maxConcurrency: number;
    readonly rate: { readonly ratePerSecond: number; readonly burst: number } | null;
  };
  readonly retry: {
    readonly maxAttempts: number;
    readonly baseMs: number;
    readonly factor: number;
    readonly capMs: number;
  };
}

/** The columns of webhook_endpoints that a target is made of. */
export interface TargetRow {
  readonly endpoint_id: EndpointId;
  readonly tenant_id: TenantId;
  readonly version: number;
  readonly url: string;
  readonly state: Exclude<EndpointState, 'deleted'>;
  /** Plain, as the version before wrote them: newer than the sealed ones when there are any. */
  readonly headers: Readonly<Record<string, string>>;
  readonly sealed_headers: SealedHeaders;
  readonly max_concurrency: number | null;
  readonly rate_per_second: number | null;
  readonly rate_burst: number | null;
  readonly timeout_ms: number | null;
  readonly max_attempts: number | null;
  readonly backoff_base_ms: number | null;
  readonly backoff_factor: number | null;
  readonly backoff_cap_ms: number | null;
  readonly deleted_at: Date | null;
}

/** The columns of endpoint_health that a target knows. */
export interface HealthColumns {
  /** Null when it is well. */
  readonly failures: number | null;
  /** Milliseconds until it may be probed; null when the breaker is closed. */
  readonly open_for_ms: number | null;
}

export function toFailing({ failures, open_for_ms }: HealthColumns): FailingHealth | null {
  if (failures === null) return null;
  return { failures, probeAtMs: open_for_ms === null ? null : performance.now() + open_for_ms };
}

/** @param opened what is sealed in the row; opened once a target, not once a delivery */
export function toTarget(
  row: TargetRow & HealthColumns,
  opened: Pick<DeliveryTarget, 'secrets' | 'headers'>,
  config: Config,
): DeliveryTarget {
  const ratePerSecond = row.rate_per_second ?? config['delivery.endpointRatePerSecond'];
  return {
    endpointId: row.endpoint_id,
    tenantId: row.tenant_id,
    version: row.version,
    url: row.url,
    state: row.deleted_at ? 'deleted' : row.state,
    failing: toFailing(row),
    headers: opened.headers,
    secrets: opened.secrets,
    timeoutMs: Math.min(row.timeout_ms ?? config['delivery.timeoutMs'], config['delivery.maxTimeoutMs']),
    limits: {
      maxConcurrency: row.max_concurrency ?? config['delivery.endpointConcurrency'],
      // A burst of one second's worth, when the endpoint does not say.
      rate:
        ratePerSecond === null
          ? null
          : { ratePerSecond, burst: row.rate_burst ?? Math.max(1, Math.ceil(ratePerSecond)) },
    },
    retry: {
      maxAttempts: row.max_attempts ?? config['delivery.maxAttempts'],
      baseMs: row.backoff_base_ms ?? config['delivery.backoffBaseMs'],
      factor: row.backoff_factor ?? config['delivery.backoffFactor'],
      capMs: row.backoff_cap_ms ?? config['delivery.backoffCapMs'],
    },
  };
}
