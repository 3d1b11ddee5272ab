import { type DeliveryId, type EndpointId, isId } from '../../shared/ids.ts';

/**
 * Raised when an older version could no longer understand a message. Fields may be added without it: they are ignored by those who
 * do not know them. Versions N and N+1 share a broker during an upgrade; what one cannot read, the sweep of any of them delivers.
 */
export const MESSAGE_VERSION = 1;
export const MESSAGE_TYPE = 'relayops.delivery';

/** What a message says: which delivery may be due. */
export interface DeliveryMessage {
  readonly deliveryId: DeliveryId;
  readonly endpointId: EndpointId;
}

export function encodeMessage({ deliveryId, endpointId }: DeliveryMessage): Buffer {
  return Buffer.from(`{"v":${MESSAGE_VERSION},"deliveryId":"${deliveryId}","endpointId":"${endpointId}"}`);
}

/** The message, or in words why it is none of ours. Whoever can reach the broker can put anything into the queue. */
export function decodeMessage(content: Buffer): DeliveryMessage | string {
  let body: unknown;
  try {
    body = JSON.parse(content.toString('utf8'));
  } catch {
    return 'not_json';
  }
  if (typeof body !== 'object' || body === null) return 'malformed';
  const { v, deliveryId, endpointId } = body as Record<string, unknown>;
  if (typeof v === 'number' && v !== MESSAGE_VERSION) return 'unknown_version';
  if (v !== MESSAGE_VERSION || typeof deliveryId !== 'string' || typeof endpointId !== 'string')
    return 'malformed';
  if (!isId(deliveryId) || !isId(endpointId)) return 'malformed';
  return { deliveryId: deliveryId as DeliveryId, endpointId: endpointId as EndpointId };
}
