import { normalisedUrl } from './endpoint-rules.ts';
import type { EndpointChange } from './endpoint.schemas.ts';
import type { EndpointSettings } from './endpoint.sql.ts';
import type { SealedHeaders } from './sealed-headers.ts';

/** What a new endpoint has before its owner says anything: the defaults of the installation, which null stands for. */
export const DEFAULT_SETTINGS: EndpointSettings = {
  name: '',
  url: '',
  sealed_headers: {},
  max_concurrency: null,
  rate_per_second: null,
  rate_burst: null,
  timeout_ms: null,
  max_attempts: null,
  backoff_base_ms: null,
  backoff_factor: null,
  backoff_cap_ms: null,
};

/**
 * The settings after a change, as in a JSON merge patch (RFC 7396) but for `headers`, which are replaced as a whole: what is
 * absent stays, null goes back to the default.
 * @param sealedHeaders what the headers are after it
 */
export function changedSettings(
  current: EndpointSettings,
  change: EndpointChange,
  sealedHeaders: SealedHeaders,
): EndpointSettings {
  const retry = change.retry === null ? RETRY_DEFAULTS : (change.retry ?? {});
  return {
    name: given(change.name, current.name) ?? '',
    url: change.url === undefined ? current.url : normalisedUrl(change.url),
    sealed_headers: sealedHeaders,
    max_concurrency: given(change.maxConcurrency, current.max_concurrency),
    rate_per_second: given(change.ratePerSecond, current.rate_per_second),
    rate_burst: given(change.rateBurst, current.rate_burst),
    timeout_ms: given(change.timeoutMs, current.timeout_ms),
    max_attempts: given(retry.maxAttempts, current.max_attempts),
    backoff_base_ms: given(retry.baseMs, current.backoff_base_ms),
    backoff_factor: given(retry.factor, current.backoff_factor),
    backoff_cap_ms: given(retry.capMs, current.backoff_cap_ms),
  };
}

const RETRY_DEFAULTS = { maxAttempts: null, baseMs: null, factor: null, capMs: null };

function given<T>(value: T | null | undefined, current: T | null): T | null {
  return value === undefined ? current : value;
}
