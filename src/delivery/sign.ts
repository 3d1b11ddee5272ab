import { createHmac, type KeyObject } from 'node:crypto';
import type { DeliveryId } from '../shared/ids.ts';

/**
 * Signs a request in the Standard Webhooks scheme: `v1,` and the base64 of HMAC-SHA256 over `id.timestamp.body`, one for
 * each secret in force, separated by spaces, so that a rotation has an overlap.
 * @param id the delivery ID: the same for every attempt, so that receivers can drop repeats
 * @param timestampS seconds since the epoch
 * @param body exactly the bytes that are sent
 */
export function signatureHeader(
  id: DeliveryId,
  timestampS: number,
  body: Uint8Array,
  keys: readonly KeyObject[],
): string {
  const prefix = `${id}.${timestampS}.`;
  let header = '';
  for (const key of keys) {
    const mac = createHmac('sha256', key).update(prefix).update(body).digest('base64');
    header += (header === '' ? 'v1,' : ' v1,') + mac;
  }
  return header;
}
