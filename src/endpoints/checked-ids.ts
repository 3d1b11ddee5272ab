import { routeNotFound } from '../platform/http/problem.ts';
import { type EndpointId, type SubscriptionId, isId } from '../shared/ids.ts';

/** A malformed ID looks the same as one that does not exist. @throws NOT_FOUND */
export function checkedEndpointId(text: string): EndpointId {
  if (!isId(text)) throw routeNotFound();
  return text as EndpointId;
}

/** As `checkedEndpointId`. @throws NOT_FOUND */
export function checkedSubscriptionId(text: string): SubscriptionId {
  if (!isId(text)) throw routeNotFound();
  return text as SubscriptionId;
}
