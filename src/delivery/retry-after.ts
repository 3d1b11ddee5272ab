/**
 * Strict `Retry-After` (RFC 9110, section 10.2.3): whole seconds, or an HTTP date in its preferred form (IMF-fixdate). It is
 * input from a stranger: anything else ("inf", "1e9", "-5", "Tomorrow") is as if it were absent.
 * @returns milliseconds from now, between 0 and `capMs`; null when absent or malformed
 */
export function parseRetryAfter(value: string | undefined, nowMs: number, capMs: number): number | null {
  if (value === undefined) return null;
  const text = value.trim();
  if (/^\d{1,15}$/.test(text)) return Math.min(Number(text) * 1000, capMs);
  if (!IMF_FIXDATE.test(text)) return null;
  const at = Date.parse(text);
  if (Number.isNaN(at)) return null;
  return Math.min(Math.max(0, at - nowMs), capMs);
}

const IMF_FIXDATE =
  /^(Mon|Tue|Wed|Thu|Fri|Sat|Sun), \d{2} (Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec) \d{4} \d{2}:\d{2}:\d{2} GMT$/;
