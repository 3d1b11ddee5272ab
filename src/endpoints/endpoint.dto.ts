import type { Config } from '../config/index.ts';
import type { Endpoint } from './endpoint.schemas.ts';
import type { CountedEndpointRow, EndpointRow } from './endpoint.sql.ts';
import { toTarget } from './target.ts';

/**
 * An endpoint as answers show it.
 * @param headers its own headers, with or without their values, which are often credentials of the receiver
 */
export function toEndpoint(
  row: CountedEndpointRow,
  config: Config,
  headers: Record<string, string>,
): Endpoint {
  return {
    endpointId: row.endpoint_id,
    name: row.name,
    url: row.url,
    state: row.state,
    stateReason: row.state_reason,
    health: toHealth(row.health),
    headers,
    maxConcurrency: row.max_concurrency,
    ratePerSecond: row.rate_per_second,
    rateBurst: row.rate_burst,
    timeoutMs: row.timeout_ms,
    retry: {
      maxAttempts: row.max_attempts,
      baseMs: row.backoff_base_ms,
      factor: row.backoff_factor,
      capMs: row.backoff_cap_ms,
    },
    effective: effectiveSettings(row, config),
    subscriptionCount: row.subscription_count,
    createdAt: row.created_at.toISOString(),
    updatedAt: row.updated_at.toISOString(),
  };
}

/** Made by what delivery uses, so that both cannot differ. */
function effectiveSettings(row: EndpointRow, config: Config): Endpoint['effective'] {
  const well = { failures: null, open_for_ms: null };
  const { limits, retry, timeoutMs } = toTarget({ ...row, ...well }, { secrets: [], headers: {} }, config);
  return {
    maxConcurrency: limits.maxConcurrency,
    ratePerSecond: limits.rate?.ratePerSecond ?? null,
    rateBurst: limits.rate?.burst ?? null,
    timeoutMs,
    retry,
  };
}

function toHealth(health: CountedEndpointRow['health']): Endpoint['health'] {
  if (health === null) return { state: 'ok', failures: 0, failingSince: null, nextProbeAt: null };
  const moment = (text: string): string => new Date(text).toISOString();
  return {
    state: health.open_until === null ? 'failing' : 'held_back',
    failures: health.failures,
    failingSince: moment(health.failing_since),
    nextProbeAt: health.open_until === null ? null : moment(health.open_until),
  };
}
