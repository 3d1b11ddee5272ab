import { type DeliveryId, type EndpointId, isId } from '../../shared/ids.ts';

/**
 * Raised when an older version could no longer understand a message. Fields may be added without it: they are ignored by those who
 * do not know them. Versions N and N+1 share a broker during an upgrade; what one cannot read, the sweep of any of them delivers.
 */
const MESSAGE_VERSION = 1;
export const MESSAGE_TYPE = 'relayops.deliveries';

/**
 * Deliveries in one message at most. What a message costs (route, log, hand out, acknowledge) is more than a delivery costs elsewhere, so those that are
 * published together share one, whatever their endpoints.
 */
export const MAX_DELIVERIES = 64;
/** What is taken from a version that puts more into one; beyond it, it is none of ours. */
const MAX_TAKEN = 1_024;

/** A delivery that may be due. */
export interface NamedDelivery {
  readonly endpointId: EndpointId;
  readonly deliveryId: DeliveryId;
}

/** `{"v":1,"deliveries":{"<endpoint ID>":["<delivery ID>", …], …}}` */
export function encodeMessage(deliveries: readonly NamedDelivery[]): Buffer {
  const byEndpoint: Record<EndpointId, DeliveryId[]> = {};
  for (const { endpointId, deliveryId } of deliveries) (byEndpoint[endpointId] ??= []).push(deliveryId);
  return Buffer.from(JSON.stringify({ v: MESSAGE_VERSION, deliveries: byEndpoint }));
}

/** The deliveries that a message names, or in words why it is none of ours. Whoever can reach the broker can put anything into the queue. */
export function decodeMessage(content: Buffer): NamedDelivery[] | string {
  let body: unknown;
  try {
    body = JSON.parse(content.toString('utf8'));
  } catch {
    return 'not_json';
  }
  if (!isRecord(body)) return 'malformed';
  const { v, deliveries } = body;
  if (typeof v === 'number' && v !== MESSAGE_VERSION) return 'unknown_version';
  if (v !== MESSAGE_VERSION || !isRecord(deliveries)) return 'malformed';
  const named: NamedDelivery[] = [];
  for (const [endpointId, ids] of Object.entries(deliveries)) {
    if (!isId(endpointId) || !Array.isArray(ids) || !ids.every(isText)) return 'malformed';
    for (const id of ids) named.push({ endpointId: endpointId as EndpointId, deliveryId: id as DeliveryId });
  }
  return named.length > 0 && named.length <= MAX_TAKEN ? named : 'malformed';
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function isText(value: unknown): value is string {
  return typeof value === 'string' && isId(value);
}
