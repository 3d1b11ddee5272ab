import type { Clock } from '../shared/clock.ts';
import { type SubscriptionId, newId } from '../shared/ids.ts';
import type { Subscription, SubscriptionBody } from './subscription.schemas.ts';
import type { NewSubscription, StoredSubscription } from './subscription.sql.ts';

export function toSubscription(row: StoredSubscription): Subscription {
  return {
    subscriptionId: row.subscription_id,
    endpointId: row.endpoint_id,
    pattern: row.pattern,
    filter: row.filter,
    createdAt: row.created_at.toISOString(),
  };
}

export function withNewIds(bodies: readonly SubscriptionBody[], clock: Clock): NewSubscription[] {
  return bodies.map(({ pattern, filter }) => ({
    subscriptionId: newId<SubscriptionId>(clock.now()),
    pattern,
    filter: filter ?? null,
  }));
}
