import Type from 'typebox';
import { Email, Name, Password, Tenant, User } from './account.schemas.ts';
import { PASSWORD_MAX_LENGTH } from './passwords.ts';

/** Bounds what is hashed; our own tokens have fewer than 60 characters. */
export const OpaqueToken = Type.String({ minLength: 1, maxLength: 256 });

export const SignUpBody = Type.Object(
  { bootstrapToken: OpaqueToken, tenantName: Name, email: Email, password: Password },
  { additionalProperties: false },
);
export type SignUpBody = Type.Static<typeof SignUpBody>;

/** Looser than for a new password: what does not fit is a failed login, not a hint. */
export const LoginBody = Type.Object(
  {
    email: Type.String({ maxLength: 254, pattern: '^[^\\p{Cc}]*$' }),
    password: Type.String({ maxLength: PASSWORD_MAX_LENGTH }),
  },
  { additionalProperties: false },
);
export type LoginBody = Type.Static<typeof LoginBody>;

export const RefreshBody = Type.Object({ refreshToken: OpaqueToken }, { additionalProperties: false });

export const Session = Type.Object({
  tokenType: Type.Literal('Bearer'),
  accessToken: Type.String(),
  expiresInSeconds: Type.Integer({ description: 'Life of the access token.' }),
  refreshToken: Type.String({ description: 'Works once, and gives the next.' }),
});
export type Session = Type.Static<typeof Session>;

export const SignedUp = Type.Object({ tenant: Tenant, user: User, session: Session });
export type SignedUp = Type.Static<typeof SignedUp>;
