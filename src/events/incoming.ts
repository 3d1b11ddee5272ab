import { createHash } from 'node:crypto';
import type { EndpointId, TenantId } from '../shared/ids.ts';

export type EventFormat = 'native' | 'cloudevents-structured' | 'cloudevents-binary' | 'test' | 'operational';

/** An event as a caller sent it, checked for form, not yet accepted. */
export interface IncomingEvent {
  readonly tenantId: TenantId;
  readonly type: string;
  readonly contentType: string;
  /** Exactly the bytes received. */
  readonly payload: Buffer;
  readonly idempotencyKey: string | null;
  readonly format: EventFormat;
  /** Headers that travel with every delivery, lower case (`ce-id`, …). */
  readonly attributes: Readonly<Record<string, string>> | null;
  readonly traceparent: string | null;
  readonly occurredAt: Date | null;
  /** Goes to this endpoint alone, whatever it subscribes to: a test event. */
  readonly onlyTo?: EndpointId;
  /** An operational event: the endpoint it is about, which does not get it. */
  readonly about?: EndpointId;
}

/**
 * What makes two events with one idempotency key "the same": type, content type, attributes and the payload's bytes. Not the trace
 * context, which a retrying client makes anew.
 */
export function bodyHash(event: IncomingEvent): Buffer {
  const attributes = event.attributes === null ? '' : JSON.stringify(Object.entries(event.attributes).sort());
  return createHash('sha256')
    .update(`${event.type}\n${event.contentType}\n${event.occurredAt?.toISOString() ?? ''}\n${attributes}\n`)
    .update(event.payload)
    .digest();
}
