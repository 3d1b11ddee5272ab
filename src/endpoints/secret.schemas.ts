import Type from 'typebox';

const YEAR_S = 31_536_000;
const Moment = Type.String({ format: 'date-time' });

export const EndpointSecret = Type.Object({
  secretId: Type.String(),
  createdAt: Moment,
  expiresAt: Type.Union([Moment, Type.Null()], {
    description: 'Until then it signs beside the newest one, which has no end.',
  }),
});
export type EndpointSecret = Type.Static<typeof EndpointSecret>;

export const EndpointSecrets = Type.Object({
  data: Type.Array(EndpointSecret, { description: 'Newest first, without the secrets themselves.' }),
});
export type EndpointSecrets = Type.Static<typeof EndpointSecrets>;

export const CurrentSecret = Type.Object({
  ...EndpointSecret.properties,
  secret: Type.String({ description: '`whsec_` and the base64 of the secret.' }),
});
export type CurrentSecret = Type.Static<typeof CurrentSecret>;

export const RotatedSecret = Type.Object({
  secret: Type.String({ description: 'The new one. Later only shown to the scope endpoints:secrets.' }),
  secrets: EndpointSecrets.properties.data,
});
export type RotatedSecret = Type.Static<typeof RotatedSecret>;

export const SecretRotationBody = Type.Object(
  {
    overlapSeconds: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: YEAR_S,
        description: 'How long old secrets sign beside the new one; default delivery.secretOverlapS.',
      }),
    ),
    secret: Type.Optional(
      Type.String({ description: '`whsec_` and the base64 of 24 to 64 bytes. Left out, one is made.' }),
    ),
  },
  { additionalProperties: false },
);
export type SecretRotationBody = Type.Static<typeof SecretRotationBody>;
