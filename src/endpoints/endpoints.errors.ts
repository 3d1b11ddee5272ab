import { defineError } from '../shared/errors.ts';

// Refused input ------------------------------------------------------------------------------------------------------

export const endpointUrlRefused = defineError({
  code: 'ENDPOINT_URL_REFUSED',
  kind: 'invalid',
  title: 'Deliveries may not be sent to this URL.',
  fix: 'Correct the fields listed under "errors". Only public http and https addresses are allowed, and those in delivery.allowAddresses.',
});
export const endpointSettingsInvalid = defineError({
  code: 'ENDPOINT_SETTINGS_INVALID',
  kind: 'invalid',
  title: 'The settings of the endpoint are not usable.',
  fix: 'Correct the fields listed under "errors".',
});
export const endpointSecretInvalid = defineError({
  code: 'ENDPOINT_SECRET_INVALID',
  kind: 'invalid',
  title: 'The signing secret does not have the right form.',
  fix: 'Send "whsec_" and the base64 of 24 to 64 random bytes, or leave it out to have one made.',
});
export const subscriptionInvalid = defineError({
  code: 'SUBSCRIPTION_INVALID',
  kind: 'invalid',
  title: 'The pattern or the filter of a subscription is not valid.',
  fix: 'Correct the fields listed under "errors". A pattern is an event type, a prefix ending in ".*", or "*"; a filter is a CEL expression over event and payload.',
});

// Limits -------------------------------------------------------------------------------------------------------------

export const endpointLimitReached = defineError({
  code: 'ENDPOINT_LIMIT_REACHED',
  kind: 'conflict',
  title: 'The tenant has as many endpoints as it may have.',
  fix: 'Delete endpoints that are no longer used.',
});
export const subscriptionLimitReached = defineError({
  code: 'SUBSCRIPTION_LIMIT_REACHED',
  kind: 'conflict',
  title: 'The endpoint has as many subscriptions as it may have.',
  fix: 'Delete some, or join several into one pattern with a prefix or a filter.',
});
export const secretLimitReached = defineError({
  code: 'SECRET_LIMIT_REACHED',
  kind: 'conflict',
  title: 'The endpoint has as many signing secrets in force as it may have.',
  fix: 'Wait until an old one has ended, or rotate with "overlapSeconds": 0, which ends all old ones at once.',
});
