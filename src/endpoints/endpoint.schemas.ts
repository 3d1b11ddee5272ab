import Type, { type TSchema } from 'typebox';
import { PageQuery } from '../platform/http/page.ts';
import { Subscription, SubscriptionBody } from './subscription.schemas.ts';
import { MAX_SUBSCRIPTIONS } from './subscription-rules.ts';
import type { EndpointState } from './target.ts';

// Parts ----------------------------------------------------------------------------------------------------------------

const DAY_MS = 86_400_000;
/** Text in one line that PostgreSQL can hold: no control characters, no halves of surrogate pairs. */
const ONE_LINE = '^[^\\p{Cc}\\p{Cs}]*$';

const Moment = Type.String({ format: 'date-time' });
const nullable = <Schema extends TSchema>(schema: Schema) => Type.Union([schema, Type.Null()]);
const setting = <Schema extends TSchema>(schema: Schema) => Type.Optional(nullable(schema));

const State = Type.Unsafe<Exclude<EndpointState, 'deleted'>>({
  type: 'string',
  enum: ['active', 'paused', 'disabled'],
  description: 'Deliveries of an endpoint that is not active wait.',
});
const Headers = Type.Unsafe<Record<string, string>>({
  type: 'object',
  additionalProperties: { type: 'string' },
  description: 'Sent with every request. At most 20, 4 KiB together; values are printable ASCII.',
});
const Name = Type.String({ maxLength: 200, pattern: ONE_LINE });
const MaxConcurrency = Type.Integer({ minimum: 1, maximum: 1_000, description: 'Requests in flight.' });
const RatePerSecond = Type.Number({ minimum: 0.01, maximum: 1_000_000, description: 'Requests per second.' });
const RateBurst = Type.Integer({
  minimum: 1,
  maximum: 1_000_000,
  description: 'Requests at once within the rate.',
});
const TimeoutMs = Type.Integer({
  minimum: 10,
  maximum: 600_000,
  description: 'Deadline of one attempt; at most delivery.maxTimeoutMs.',
});
const MaxAttempts = Type.Integer({
  minimum: 1,
  maximum: 100,
  description: 'Attempts before a delivery is dead.',
});
const BaseMs = Type.Integer({
  minimum: 1,
  maximum: 7 * DAY_MS,
  description: 'Upper bound of the first pause.',
});
const Factor = Type.Number({
  minimum: 1,
  maximum: 100,
  description: 'Growth of that bound with each attempt.',
});
const CapMs = Type.Integer({
  minimum: 1,
  maximum: 7 * DAY_MS,
  description: 'Longest pause between attempts.',
});

const Health = Type.Object({
  state: Type.Unsafe<'ok' | 'failing' | 'held_back'>({
    type: 'string',
    enum: ['ok', 'failing', 'held_back'],
    description:
      'failing: its last attempt failed. held_back: so many failed in a row that its deliveries wait, and one is sent now and then to see whether it is back.',
  }),
  failures: Type.Integer({ description: 'Failed attempts since the last success.' }),
  failingSince: nullable(Moment),
  nextProbeAt: nullable(Type.String({ format: 'date-time', description: 'Before that nothing is sent.' })),
});

// Answers --------------------------------------------------------------------------------------------------------------

export const Endpoint = Type.Object({
  endpointId: Type.String(),
  name: Type.String(),
  url: Type.String({ description: 'As it is dialled: normalised.' }),
  state: State,
  stateReason: nullable(Type.String({ description: 'Why it is in this state, when somebody said so.' })),
  health: Health,
  headers: Type.Unsafe<Record<string, string>>({
    ...Headers,
    description: 'Each value is `********` for credentials without the scope endpoints:secrets.',
  }),
  maxConcurrency: nullable(MaxConcurrency),
  ratePerSecond: nullable(RatePerSecond),
  rateBurst: nullable(RateBurst),
  timeoutMs: nullable(TimeoutMs),
  retry: Type.Object({
    maxAttempts: nullable(MaxAttempts),
    baseMs: nullable(BaseMs),
    factor: nullable(Factor),
    capMs: nullable(CapMs),
  }),
  effective: Type.Object(
    {
      maxConcurrency: Type.Integer(),
      ratePerSecond: nullable(Type.Number()),
      rateBurst: nullable(Type.Integer()),
      timeoutMs: Type.Integer(),
      retry: Type.Object({
        maxAttempts: Type.Integer(),
        baseMs: Type.Integer(),
        factor: Type.Number(),
        capMs: Type.Integer(),
      }),
    },
    { description: 'What is in force: the settings above, with the defaults of this installation for null.' },
  ),
  subscriptionCount: Type.Integer(),
  createdAt: Moment,
  updatedAt: Moment,
});
export type Endpoint = Type.Static<typeof Endpoint>;

export const NewEndpoint = Type.Object({
  endpoint: Endpoint,
  secret: Type.String({
    description: 'Signs the deliveries. Later only shown to the scope endpoints:secrets.',
  }),
  subscriptions: Type.Array(Subscription),
});
export type NewEndpoint = Type.Static<typeof NewEndpoint>;

// Requests -------------------------------------------------------------------------------------------------------------

/** Null, as leaving it out at creation, takes the default. */
const settings = {
  name: setting(Name),
  headers: setting(Headers),
  maxConcurrency: setting(MaxConcurrency),
  ratePerSecond: setting(RatePerSecond),
  rateBurst: setting(RateBurst),
  timeoutMs: setting(TimeoutMs),
  retry: setting(
    Type.Object(
      {
        maxAttempts: setting(MaxAttempts),
        baseMs: setting(BaseMs),
        factor: setting(Factor),
        capMs: setting(CapMs),
      },
      { additionalProperties: false },
    ),
  ),
};
const Url = Type.String({
  description: 'http or https, to a public address.',
  examples: ['https://example.com/hooks'],
});

export const NewEndpointBody = Type.Object(
  {
    url: Url,
    ...settings,
    secret: Type.Optional(
      Type.String({ description: '`whsec_` and the base64 of 24 to 64 bytes. Left out, one is made.' }),
    ),
    subscriptions: Type.Optional(Type.Array(SubscriptionBody, { maxItems: MAX_SUBSCRIPTIONS })),
    paused: Type.Optional(Type.Boolean({ description: 'Deliveries wait until the endpoint is resumed.' })),
  },
  { additionalProperties: false },
);
export type NewEndpointBody = Type.Static<typeof NewEndpointBody>;

export const EndpointChange = Type.Object(
  { url: Type.Optional(Url), ...settings },
  {
    additionalProperties: false,
    minProperties: 1,
    description:
      'What is left out stays; null takes the default. Headers are replaced as a whole; one with the value `********` keeps its value.',
  },
);
export type EndpointChange = Type.Static<typeof EndpointChange>;

export const StateBody = Type.Object(
  { reason: Type.Optional(Type.String({ minLength: 1, maxLength: 500, pattern: ONE_LINE })) },
  { additionalProperties: false },
);

export const EndpointParams = Type.Object({ endpointId: Type.String() });

export const EndpointListQuery = Type.Object(
  { ...PageQuery.properties, state: Type.Optional(State) },
  { additionalProperties: false },
);
export type EndpointListQuery = Type.Static<typeof EndpointListQuery>;
