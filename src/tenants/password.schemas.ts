import Type from 'typebox';
import { Moment, Password } from './account.schemas.ts';
import { PASSWORD_MAX_LENGTH } from './passwords.ts';
import { OpaqueToken } from './session.schemas.ts';

export const PasswordChange = Type.Object(
  { currentPassword: Type.String({ maxLength: PASSWORD_MAX_LENGTH }), newPassword: Password },
  { additionalProperties: false },
);
export type PasswordChange = Type.Static<typeof PasswordChange>;

/** The only answer that holds the token itself. */
export const PasswordReset = Type.Object({
  userId: Type.String(),
  resetToken: Type.String({
    description: 'Shown now and never again. Works once, at /v1/auth/password-reset.',
  }),
  expiresAt: Moment,
});
export type PasswordReset = Type.Static<typeof PasswordReset>;

export const PasswordResetBody = Type.Object(
  { resetToken: OpaqueToken, newPassword: Password },
  { additionalProperties: false },
);
export type PasswordResetBody = Type.Static<typeof PasswordResetBody>;
