import type { ClaimedWork } from '../transport/port.ts';
import { signatureHeader } from './sign.ts';

const USER_AGENT = 'RelayOps/1 (+https://relayops.dev)';

/**
 * The headers of one attempt: Standard Webhooks, ours, the event's attributes, and below them the endpoint's own. The signature is
 * over exactly `body`. Secrets whose overlap has ended no longer sign.
 */
export function requestHeaders(work: ClaimedWork, body: Buffer, nowMs: number): Record<string, string> {
  const timestampS = Math.floor(nowMs / 1000);
  const secrets = work.target.secrets.filter(
    (secret) => secret.expiresAtMs === null || secret.expiresAtMs > nowMs,
  );
  const headers: Record<string, string> = {};
  for (const [name, value] of Object.entries(work.target.headers)) headers[name.toLowerCase()] = value;
  if (work.attributes) {
    for (const [name, value] of Object.entries(work.attributes)) headers[name] = encodeHeaderValue(value);
  }
  headers['content-type'] = work.contentType;
  headers['user-agent'] = USER_AGENT;
  headers['webhook-id'] = work.deliveryId;
  headers['webhook-timestamp'] = String(timestampS);
  headers['webhook-signature'] = signatureHeader(
    work.deliveryId,
    timestampS,
    body,
    secrets.map((secret) => secret.key),
  );
  headers['x-relayops-delivery-id'] = work.deliveryId;
  headers['x-relayops-event-id'] = work.eventId;
  headers['x-relayops-event-type'] = work.eventType;
  headers['x-relayops-attempt'] = String(work.attemptNumber);
  if (work.traceparent !== null) headers['traceparent'] = work.traceparent;
  return headers;
}

/**
 * Percent-encodes what a header value cannot carry (CloudEvents HTTP binding 1.0.2, section 3.1.3.2): everything but printable ASCII,
 * and the space, the quote and the percent sign, so that a receiver decodes it without loss.
 */
export function encodeHeaderValue(value: string): string {
  return /^[\x21\x23\x24\x26-\x7e]*$/.test(value)
    ? value
    : Array.from(value, (char) => (/[\x21\x23\x24\x26-\x7e]/.test(char) ? char : percentEncode(char))).join(
        '',
      );
}

function percentEncode(char: string): string {
  return Array.from(
    Buffer.from(char, 'utf8'),
    (byte) => '%' + byte.toString(16).toUpperCase().padStart(2, '0'),
  ).join('');
}
