import { randomFillSync } from 'node:crypto';

declare const brand: unique symbol;
type Branded<Name extends string> = string & { readonly [brand]: Name };

/** IDs are UUIDv7 in lower-case text. The brand keeps one kind from being passed for another. */
export type TenantId = Branded<'TenantId'>;
export type UserId = Branded<'UserId'>;
export type ApiKeyId = Branded<'ApiKeyId'>;
export type EndpointId = Branded<'EndpointId'>;
export type SubscriptionId = Branded<'SubscriptionId'>;
export type EventId = Branded<'EventId'>;
export type DeliveryId = Branded<'DeliveryId'>;
export type JobId = Branded<'JobId'>;
type AnyId = TenantId | UserId | ApiKeyId | EndpointId | SubscriptionId | EventId | DeliveryId | JobId;

const POOL_BYTES = 8192;
const RANDOM_BYTES_PER_ID = 10;
const pool = Buffer.alloc(POOL_BYTES);
let used = POOL_BYTES;

/**
 * A new UUIDv7 (RFC 9562, section 5.7): 48 bits of milliseconds, then 74 random bits. Random bytes are drawn from the
 * operating system in blocks, because one call an ID costs more than the rest of the function.
 * @param nowMs milliseconds since the epoch; IDs sort by it
 */
export function newId<T extends AnyId>(nowMs: number): T {
  if (used + RANDOM_BYTES_PER_ID > POOL_BYTES) {
    randomFillSync(pool);
    used = 0;
  }
  const time = nowMs.toString(16).padStart(12, '0');
  const r = pool.toString('hex', used, used + RANDOM_BYTES_PER_ID);
  used += RANDOM_BYTES_PER_ID;
  const variant = ((parseInt(r[3]!, 16) & 0x3) | 0x8).toString(16);
  return `${time.slice(0, 8)}-${time.slice(8)}-7${r.slice(0, 3)}-${variant}${r.slice(4, 7)}-${r.slice(7, 19)}` as T;
}

/** Milliseconds since the epoch at which a UUIDv7 was made. */
export function timeOfId(id: string): number {
  return parseInt(id.slice(0, 8) + id.slice(9, 13), 16);
}

/** The smallest UUID whose time is `ms`: the lower bound of a key range. */
export function firstIdAt(ms: number): string {
  const time = Math.max(0, Math.floor(ms)).toString(16).padStart(12, '0');
  return `${time.slice(0, 8)}-${time.slice(8)}-0000-0000-000000000000`;
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/;

/** True for the canonical lower-case form. Anything else cannot be one of our IDs, so look-ups answer "not found". */
export function isId(text: string): boolean {
  return UUID.test(text);
}
