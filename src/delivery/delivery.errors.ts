import { defineError } from '../shared/errors.ts';

export const deliveryNotOpen = defineError({
  code: 'DELIVERY_NOT_OPEN',
  kind: 'conflict',
  title: 'The delivery has ended already.',
  fix: 'Look at its state; only pending deliveries and those in progress can be cancelled.',
});
export const deliveryNotReplayable = defineError({
  code: 'DELIVERY_NOT_REPLAYABLE',
  kind: 'conflict',
  title: 'Only failed, dead and cancelled deliveries can be replayed.',
  fix: 'Look at its state. One whose endpoint is deleted has nowhere to go; one whose subscription filter could not be evaluated has to be sent again as an event.',
});
export const replayScopeMissing = defineError({
  code: 'REPLAY_SCOPE_MISSING',
  kind: 'invalid',
  title: 'A bulk replay must say what it covers.',
  fix: 'Give at least one of endpointId, eventType, from or to.',
});
