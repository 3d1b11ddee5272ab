import Type from 'typebox';
import { pageOf } from '../platform/http/page.ts';

const Nullable = <T extends Parameters<typeof Type.Union>[0][number]>(schema: T) =>
  Type.Union([schema, Type.Null()]);
const Moment = Type.String({ format: 'date-time' });

export const NativeEvent = Type.Object(
  {
    type: Type.String({ description: 'Dot-separated name, e.g. `order.paid`.', examples: ['order.paid'] }),
    payload: Type.Unknown({
      description: 'Any JSON value. Its bytes are kept and delivered exactly as sent.',
    }),
    idempotencyKey: Type.Optional(
      Type.String({
        description:
          'A repeat with the same key gets the original answer and causes nothing. The Idempotency-Key header does the same.',
      }),
    ),
    occurredAt: Type.Optional(
      Type.String({ format: 'date-time', description: 'When it happened, if that is not now.' }),
    ),
  },
  { additionalProperties: false },
);

export const EventBatch = Type.Object(
  { events: Type.Array(NativeEvent, { minItems: 1 }) },
  { additionalProperties: false },
);

export const TestEventBody = Type.Union([
  Type.Object(
    {
      type: Type.Optional(Type.String({ description: 'Default: relayops.test' })),
      payload: Type.Optional(Type.Unknown({ description: 'Default: a short greeting.' })),
    },
    { additionalProperties: false },
  ),
  Type.Null(),
]);

export const AcceptedEvent = Type.Object({
  eventId: Type.String({ format: 'uuid' }),
  acceptedAt: Moment,
  deliveries: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'Deliveries that it caused; 0 when nobody subscribes to its type. Null for a repeat whose original has left by retention.',
  }),
});

export const BatchResult = Type.Object({
  accepted: Type.Integer(),
  rejected: Type.Integer(),
  results: Type.Array(
    Type.Union([
      Type.Object({
        status: Type.Literal('accepted'),
        replayed: Type.Boolean(),
        ...AcceptedEvent.properties,
      }),
      Type.Object({
        status: Type.Literal('rejected'),
        error: Type.Object({}, { additionalProperties: true, description: 'A problem document.' }),
      }),
    ]),
    { description: 'One for each event, in the order sent.' },
  ),
});

export const Event = Type.Object({
  eventId: Type.String(),
  type: Type.String(),
  contentType: Type.String(),
  payloadBytes: Type.Integer(),
  idempotencyKey: Nullable(Type.String()),
  format: Type.String({
    description: 'native, cloudevents-structured, cloudevents-binary, test or operational',
  }),
  attributes: Nullable(Type.Record(Type.String(), Type.String())),
  traceparent: Nullable(Type.String()),
  occurredAt: Nullable(Moment),
  acceptedAt: Moment,
  deliveryCount: Type.Integer(),
});
export type Event = Type.Static<typeof Event>;

export const EventPage = pageOf(Event);
export const EventParams = Type.Object({ eventId: Type.String() });
export const EventListQuery = Type.Object(
  {
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50 }),
    cursor: Type.Optional(Type.String()),
    type: Type.Optional(Type.String({ description: 'Exact event type.' })),
    from: Type.Optional(Type.String({ format: 'date-time', description: 'Accepted at or after.' })),
    to: Type.Optional(Type.String({ format: 'date-time', description: 'Accepted before.' })),
  },
  { additionalProperties: false },
);
export type EventListQuery = Type.Static<typeof EventListQuery>;
