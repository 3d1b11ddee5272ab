import type { Permit } from '../coordination/port.ts';
import type { ClaimedRow } from '../delivery/index.ts';
import type { DeliveryTarget } from '../endpoints/index.ts';
import type { ClaimedWork } from './port.ts';

/** Payloads up to this size come with the claim; larger ones are read when their turn comes, so that a claim's memory is bounded. */
export const INLINE_PAYLOAD_BYTES = 65_536;

export function toWork(
  row: ClaimedRow,
  target: DeliveryTarget,
  permit: Permit,
  leaseEndsAtMs: number,
): ClaimedWork {
  return {
    leaseEndsAtMs,
    deliveryId: row.delivery_id,
    eventId: row.event_id,
    tenantId: row.tenant_id,
    endpointId: row.endpoint_id,
    leaseToken: row.lease_token,
    attemptNumber: row.attempt_no,
    priorAttempts: row.prior_attempts,
    eventType: row.type ?? '',
    contentType: row.content_type,
    payload: row.payload,
    payloadBytes: row.payload_bytes,
    attributes: row.attributes,
    traceparent: row.traceparent,
    acceptedAtMs: row.accepted_ms,
    target,
    permit,
  };
}
