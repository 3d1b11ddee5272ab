import Type from 'typebox';
import { pageOf } from '../platform/http/page.ts';

const Moment = Type.String({ format: 'date-time' });
const MomentOrNull = Type.Union([Moment, Type.Null()]);
const TextOrNull = Type.Union([Type.String(), Type.Null()]);
const IntegerOrNull = Type.Union([Type.Integer(), Type.Null()]);

export const DeliveryStateName = Type.Enum([
  'pending',
  'in_progress',
  'succeeded',
  'failed',
  'dead',
  'cancelled',
]);

export const Delivery = Type.Object({
  deliveryId: Type.String(),
  eventId: Type.String(),
  endpointId: Type.String(),
  eventType: Type.String(),
  state: DeliveryStateName,
  reason: Type.Union([Type.String(), Type.Null()], { description: 'Why it ended without success.' }),
  createdAt: Moment,
  finishedAt: MomentOrNull,
  nextAttemptAt: Type.Union([Moment, Type.Null()], { description: 'While pending: when it is due.' }),
  attempts: Type.Union([Type.Integer(), Type.Null()], {
    description:
      'While open: attempts so far, the running one included. Null once it has ended: its attempts are a list of their own.',
  }),
});
export type Delivery = Type.Static<typeof Delivery>;
export const DeliveryPage = pageOf(Delivery);

export const Attempt = Type.Object({
  attemptNumber: Type.Integer(),
  outcome: Type.Enum(['success', 'retryable', 'rejected', 'gone', 'redirected', 'unknown'], {
    description:
      '`unknown`: the worker vanished or was stopped; the receiver may or may not have the request.',
  }),
  startedAt: MomentOrNull,
  durationMs: Type.Union([Type.Number(), Type.Null()]),
  httpStatus: IntegerOrNull,
  errorCode: TextOrNull,
  errorDetail: TextOrNull,
  responseHeaders: Type.Union([Type.Record(Type.String(), Type.String()), Type.Null()]),
  responseBody: Type.Union([Type.String(), Type.Null()], {
    description: 'The beginning of the body, as text.',
  }),
  nextAttemptAt: MomentOrNull,
  worker: Type.String(),
  recordedAt: Moment,
  lateResults: Type.Array(
    Type.Object({
      outcome: Type.String(),
      httpStatus: IntegerOrNull,
      errorCode: TextOrNull,
      worker: Type.String(),
      observedAt: Moment,
    }),
    { description: 'What a worker reported after its lease had gone to another: kept, never applied.' },
  ),
});
export type Attempt = Type.Static<typeof Attempt>;
export const AttemptList = Type.Object({ data: Type.Array(Attempt) });

export const DeliveryParams = Type.Object({ deliveryId: Type.String() });
export const DeliveryListQuery = Type.Object(
  {
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50 }),
    cursor: Type.Optional(Type.String()),
    state: Type.Optional(DeliveryStateName),
    endpointId: Type.Optional(Type.String()),
    eventId: Type.Optional(Type.String()),
    type: Type.Optional(Type.String({ description: 'Exact event type.' })),
    from: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'Event accepted at or after. Not with pending and in_progress.',
      }),
    ),
    to: Type.Optional(
      Type.String({
        format: 'date-time',
        description: 'Event accepted before. Not with pending and in_progress.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type DeliveryListQuery = Type.Static<typeof DeliveryListQuery>;

const ReplayScope = {
  endpointId: Type.Optional(Type.String()),
  eventType: Type.Optional(Type.String()),
  states: Type.Optional(
    Type.Array(Type.Enum(['failed', 'dead', 'cancelled']), {
      minItems: 1,
      description: 'Default: failed and dead.',
    }),
  ),
  reason: Type.Optional(Type.String({ description: 'Exact reason, e.g. `attempts_exhausted`.' })),
  from: Type.Optional(Type.String({ format: 'date-time', description: 'Event accepted at or after.' })),
  to: Type.Optional(Type.String({ format: 'date-time', description: 'Event accepted before.' })),
};
export const ReplayBody = Type.Object(
  { ...ReplayScope, dryRun: Type.Optional(Type.Boolean({ description: 'Only count what it would cover.' })) },
  { additionalProperties: false },
);
export type ReplayBody = Type.Static<typeof ReplayBody>;
export const EndpointReplayBody = Type.Object({ since: Moment }, { additionalProperties: false });

export const ReplayCount = Type.Object({
  dryRun: Type.Literal(true),
  count: Type.Integer(),
  exact: Type.Boolean(),
});
export const ReplayJob = Type.Object({
  jobId: Type.String(),
  state: Type.Enum(['running', 'completed', 'cancelled', 'failed'], {
    description:
      '`failed`: five steps in a row went wrong. What was reopened until then stays reopened; a new job covers the rest.',
  }),
  total: Type.Integer({ description: 'What it covered when it was made.' }),
  replayed: Type.Integer(),
  error: Type.Union([Type.String(), Type.Null()], { description: 'Why it failed.' }),
  requestedBy: Type.String(),
  createdAt: Moment,
  finishedAt: MomentOrNull,
});
export type ReplayJob = Type.Static<typeof ReplayJob>;
export const ReplayJobPage = pageOf(ReplayJob);
export const JobParams = Type.Object({ jobId: Type.String() });
export const JobListQuery = Type.Object(
  { limit: Type.Integer({ minimum: 1, maximum: 200, default: 50 }), cursor: Type.Optional(Type.String()) },
  { additionalProperties: false },
);

const BoundedCount = Type.Object(
  { count: Type.Integer(), exact: Type.Boolean() },
  { description: 'Not exact: at least that many; counting stopped at a bound.' },
);
export const StatsQuery = Type.Object(
  {
    minutes: Type.Integer({
      minimum: 1,
      maximum: 10_080,
      default: 60,
      description: 'Window, back from now.',
    }),
    endpointId: Type.Optional(Type.String()),
  },
  { additionalProperties: false },
);
export const Stats = Type.Object({
  window: Type.Object({ from: Moment, to: Moment }),
  events: BoundedCount,
  deliveries: Type.Record(Type.String(), Type.Integer(), {
    description: 'Of events in the window, by state.',
  }),
  deliveriesExact: Type.Boolean(),
  open: BoundedCount,
  oldestDueAt: MomentOrNull,
});
export type Stats = Type.Static<typeof Stats>;
