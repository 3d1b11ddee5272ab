import Type from 'typebox';
import { Moment, MomentOrNull, Name, ScopeName } from './account.schemas.ts';

const YEAR_S = 31_536_000;

export const ApiKey = Type.Object({
  apiKeyId: Type.String(),
  name: Type.String(),
  prefix: Type.String({ description: 'How the key begins.' }),
  scopes: Type.Array(ScopeName),
  createdBy: Type.String(),
  createdAt: Moment,
  expiresAt: MomentOrNull,
  revokedAt: MomentOrNull,
  lastUsedAt: Type.Union([Moment, Type.Null()], { description: 'Exact to about a minute.' }),
});
export type ApiKey = Type.Static<typeof ApiKey>;

/** The only answer that holds the key itself. */
export const NewApiKey = Type.Object({
  apiKey: ApiKey,
  key: Type.String({ description: 'Shown now and never again.' }),
});
export type NewApiKey = Type.Static<typeof NewApiKey>;

export const RotatedApiKey = Type.Object({
  ...NewApiKey.properties,
  previous: Type.Object(
    { apiKeyId: Type.String(), expiresAt: Moment },
    { description: 'The old key and when it stops.' },
  ),
});
export type RotatedApiKey = Type.Static<typeof RotatedApiKey>;

export const NewApiKeyBody = Type.Object(
  {
    name: Name,
    scopes: Type.Array(ScopeName, { minItems: 1, uniqueItems: true }),
    expiresAt: Type.Optional(MomentOrNull),
  },
  { additionalProperties: false },
);
export type NewApiKeyBody = Type.Static<typeof NewApiKeyBody>;

export const RotationBody = Type.Object(
  {
    overlapSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: YEAR_S,
        description: 'How long the old key goes on; default auth.keyRotationOverlapS.',
      }),
    ),
    expiresAt: Type.Optional(
      Type.Union([Moment, Type.Null()], {
        description: 'When the new key expires; default: when the old one would have.',
      }),
    ),
  },
  { additionalProperties: false },
);
export type RotationBody = Type.Static<typeof RotationBody>;

export const ApiKeyParams = Type.Object({ apiKeyId: Type.String() });
