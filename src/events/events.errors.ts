import { defineError } from '../shared/errors.ts';

export const payloadTooLarge = defineError({
  code: 'PAYLOAD_TOO_LARGE',
  kind: 'too_large',
  title: "The event's payload is larger than allowed.",
  fix: 'Send a reference instead of the data, or raise ingest.maxPayloadBytes.',
});
export const idempotencyConflict = defineError({
  code: 'IDEMPOTENCY_CONFLICT',
  kind: 'conflict',
  title: 'This idempotency key was used for another event.',
  fix: 'Use a new key for a new event; "originalEventId" names the event that has this one.',
});
export const eventInvalid = defineError({
  code: 'EVENT_INVALID',
  kind: 'invalid',
  title: 'The event is not well formed.',
  fix: 'Correct the fields listed under "errors".',
});
export const cloudEventInvalid = defineError({
  code: 'CLOUDEVENT_INVALID',
  kind: 'invalid',
  title: 'The request is not a valid CloudEvent.',
  fix: 'Send specversion 1.0 with the attributes that CloudEvents 1.0.2 requires: id, source and type.',
});
export const batchTooLarge = defineError({
  code: 'BATCH_TOO_LARGE',
  kind: 'too_large',
  title: 'The batch has more events than allowed.',
  fix: "Split it, or raise ingest.maxBatchEvents or the tenant's burst, whichever the detail names.",
});
export const rateLimited = defineError({
  code: 'RATE_LIMITED',
  kind: 'rate_limited',
  title: "The tenant's event rate is used up.",
  fix: 'Nothing was stored. Send again after the time in Retry-After, with the same idempotency key.',
});
export const backlogFull = defineError({
  code: 'BACKLOG_FULL',
  kind: 'unavailable',
  title: 'Too much work is waiting; no more is taken for now.',
  fix: 'Nothing was stored. Send again after the time in Retry-After.',
});
export const acceptanceUncertain = defineError({
  code: 'ACCEPTANCE_UNCERTAIN',
  kind: 'unavailable',
  title: 'The database went away while the event was being written; whether it is stored is not known.',
  fix: 'Send it again with the same idempotency key: if it was stored, you get the original answer.',
});
export const stopping = defineError({
  code: 'STOPPING',
  kind: 'unavailable',
  title: 'This process is stopping.',
  fix: 'Nothing was stored. Send again; another process answers.',
});
