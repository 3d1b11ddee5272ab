import type { BucketLimit } from './port.ts';

/** A bucket's level at a moment. Pure: the caller keeps it and says what time it is. */
export interface BucketLevel {
  readonly tokens: number;
  readonly atMs: number;
}

/** The level now: refilled since the last look, never above the burst. A clock that went back refills nothing. */
export function refill(level: BucketLevel | undefined, limit: BucketLimit, nowMs: number): BucketLevel {
  if (level === undefined) return { tokens: limit.burst, atMs: nowMs };
  const elapsedMs = Math.max(0, nowMs - level.atMs);
  const tokens = Math.min(limit.burst, level.tokens + (elapsedMs * limit.ratePerSecond) / 1000);
  return { tokens, atMs: Math.max(nowMs, level.atMs) };
}

/** Milliseconds until `n` tokens are there. */
export function msUntil(level: BucketLevel, limit: BucketLimit, n: number): number {
  return Math.max(0, Math.ceil(((n - level.tokens) * 1000) / limit.ratePerSecond));
}
