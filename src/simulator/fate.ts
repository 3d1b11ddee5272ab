import type { Behaviour } from './behaviour.ts';

/** What happens to one request. */
export type Fate =
  | { readonly kind: 'drop' }
  | { readonly kind: 'hang' }
  | { readonly kind: 'reset'; readonly status: number }
  | { readonly kind: 'answer'; readonly status: number };

export interface Occasion {
  /** Requests to the receiver before this one, since its behaviour was set. */
  readonly before: number;
  readonly deliveryId: string | undefined;
  /** Requests with the same delivery ID before this one. */
  readonly deliveryBefore: number;
}

const FLAKY_STATUS = 500;
const REDIRECT_STATUS = 302;

/** Decides without any state of its own: the same behaviour and occasion have the same fate, so that runs can be repeated. */
export function fateOf(behaviour: Behaviour, occasion: Occasion): Fate {
  const { drop, flaky } = behaviour;
  if (drop > 0 && dice('drop', behaviour.seed, occasion) < drop) return { kind: 'drop' };
  if (behaviour.hang) return { kind: 'hang' };
  const isFlaky = flaky > 0 && dice('flaky', behaviour.seed, occasion) < flaky;
  const status = isFlaky ? FLAKY_STATUS : plannedStatus(behaviour, occasion);
  return { kind: behaviour.reset ? 'reset' : 'answer', status };
}

/** Milliseconds before the fate is carried out. */
export function delayOf({ latencyMs, jitterMs, seed }: Behaviour, occasion: Occasion): number {
  return jitterMs === 0 ? latencyMs : latencyMs + Math.floor(dice('jitter', seed, occasion) * (jitterMs + 1));
}

function plannedStatus({ status, loop, per, redirect }: Behaviour, occasion: Occasion): number {
  const at =
    per === 'delivery' && occasion.deliveryId !== undefined ? occasion.deliveryBefore : occasion.before;
  const planned = status[loop ? at % status.length : Math.min(at, status.length - 1)] ?? 200;
  const isRedirect = planned >= 300 && planned < 400;
  return redirect === undefined || isRedirect ? planned : REDIRECT_STATUS;
}

/** A number in [0, 1) that depends on the seed, the delivery and how often it came (without an ID: on the request's position). */
function dice(purpose: string, seed: string, { before, deliveryId, deliveryBefore }: Occasion): number {
  const key =
    deliveryId === undefined
      ? `${purpose} ${seed} ${before}`
      : `${purpose} ${seed} ${deliveryId} ${deliveryBefore}`;
  // FNV-1a, then MurmurHash3's finaliser: keys that differ in one digit must not fall on the same side.
  let hash = 0x811c9dc5;
  for (let i = 0; i < key.length; i += 1) hash = Math.imul(hash ^ key.charCodeAt(i), 0x01000193);
  hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
  hash = Math.imul(hash ^ (hash >>> 13), 0xc2b2ae35);
  return ((hash ^ (hash >>> 16)) >>> 0) / 2 ** 32;
}
