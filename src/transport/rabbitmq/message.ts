import { type DeliveryId, type EndpointId, isId } from '../../shared/ids.ts';

/**
 * Raised when an older version could no longer understand a message. Fields may be added without it: they are ignored by those who
 * do not know them. Versions N and N+1 share a broker during an upgrade; what one cannot read, the sweep of any of them delivers.
 */
const MESSAGE_VERSION = 1;
export const MESSAGE_TYPE = 'relayops.deliveries';

/**
 * Deliveries in one message at most. What a message costs (route, log, hand out, acknowledge) is more than a delivery costs elsewhere, so those of one
 * endpoint that are published together share one.
 */
export const MAX_DELIVERIES = 32;

/** What a message says: which deliveries of an endpoint may be due. */
export interface DeliveriesMessage {
  readonly endpointId: EndpointId;
  readonly deliveryIds: readonly DeliveryId[];
}

export function encodeMessage({ endpointId, deliveryIds }: DeliveriesMessage): Buffer {
  return Buffer.from(
    `{"v":${MESSAGE_VERSION},"endpointId":"${endpointId}","deliveryIds":["${deliveryIds.join('","')}"]}`,
  );
}

/** The message, or in words why it is none of ours. Whoever can reach the broker can put anything into the queue. */
export function decodeMessage(content: Buffer): DeliveriesMessage | string {
  let body: unknown;
  try {
    body = JSON.parse(content.toString('utf8'));
  } catch {
    return 'not_json';
  }
  if (typeof body !== 'object' || body === null) return 'malformed';
  const { v, endpointId, deliveryIds } = body as Record<string, unknown>;
  if (typeof v === 'number' && v !== MESSAGE_VERSION) return 'unknown_version';
  if (v !== MESSAGE_VERSION || !isText(endpointId) || !Array.isArray(deliveryIds)) return 'malformed';
  if (deliveryIds.length === 0 || deliveryIds.length > MAX_DELIVERIES || !deliveryIds.every(isText))
    return 'malformed';
  return { endpointId: endpointId as EndpointId, deliveryIds: deliveryIds as DeliveryId[] };
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && isId(value);
}
