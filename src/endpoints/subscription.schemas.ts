import Type from 'typebox';
import { MAX_EXPRESSION_LENGTH } from '../platform/expressions/index.ts';
import { MAX_EVENT_TYPE_LENGTH } from './patterns.ts';

const Pattern = Type.String({
  maxLength: MAX_EVENT_TYPE_LENGTH + '.*'.length,
  description: 'An event type, a prefix ending in `.*`, or `*`.',
  examples: ['order.*'],
});
const Filter = Type.Union(
  [Type.String({ maxLength: MAX_EXPRESSION_LENGTH, examples: ['payload.amount > 100'] }), Type.Null()],
  { description: 'A CEL expression over `event` and `payload`; null lets every event of the type through.' },
);

export const Subscription = Type.Object({
  subscriptionId: Type.String(),
  endpointId: Type.String(),
  pattern: Type.String(),
  filter: Type.Union([Type.String(), Type.Null()]),
  createdAt: Type.String({ format: 'date-time' }),
});
export type Subscription = Type.Static<typeof Subscription>;

export const SubscriptionBody = Type.Object(
  { pattern: Pattern, filter: Type.Optional(Filter) },
  { additionalProperties: false },
);
export type SubscriptionBody = Type.Static<typeof SubscriptionBody>;

export const SubscriptionChange = Type.Object(
  { pattern: Type.Optional(Pattern), filter: Type.Optional(Filter) },
  { additionalProperties: false, minProperties: 1 },
);
export type SubscriptionChange = Type.Static<typeof SubscriptionChange>;

export const SubscriptionParams = Type.Object({ endpointId: Type.String(), subscriptionId: Type.String() });
