import Type from 'typebox';
import { PASSWORD_MAX_LENGTH, PASSWORD_MIN_LENGTH } from './passwords.ts';
import { ROLES, SCOPES, type Role, type Scope } from './scopes.ts';

// Parts that the schemas of this feature share -------------------------------------------------------------------------

/** A name that people read: not blank, and no control characters, which would break lists and logs. */
export const Name = Type.String({ minLength: 1, maxLength: 200, pattern: '^(?=.*\\S)[^\\p{Cc}]+$' });
/** The longest address that SMTP can carry (RFC 5321, 4.5.3.1.3, less the angle brackets). */
export const Email = Type.String({ format: 'email', maxLength: 254 });
export const Password = Type.String({
  minLength: PASSWORD_MIN_LENGTH,
  maxLength: PASSWORD_MAX_LENGTH,
  description: `${PASSWORD_MIN_LENGTH} to ${PASSWORD_MAX_LENGTH} characters of any kind.`,
});
export const Moment = Type.String({ format: 'date-time' });
export const MomentOrNull = Type.Union([Moment, Type.Null()]);
export const RoleName = Type.Unsafe<Role>({ type: 'string', enum: [...ROLES] });
export const ScopeName = Type.Unsafe<Scope>({ type: 'string', enum: [...SCOPES] });

// Tenant and caller ----------------------------------------------------------------------------------------------------

export const Tenant = Type.Object({ tenantId: Type.String(), name: Type.String(), createdAt: Moment });
export type Tenant = Type.Static<typeof Tenant>;

export const TenantChange = Type.Object({ name: Name }, { additionalProperties: false });

export const Me = Type.Object({
  actor: Type.String({ description: '`user:<ID>` or `key:<ID>`.' }),
  tenantId: Type.String(),
  scopes: Type.Array(ScopeName),
  user: Type.Union([
    Type.Object({ userId: Type.String(), email: Type.String(), role: RoleName }),
    Type.Null(),
  ]),
});
export type Me = Type.Static<typeof Me>;

// Users ----------------------------------------------------------------------------------------------------------------

export const User = Type.Object({
  userId: Type.String(),
  email: Type.String(),
  role: RoleName,
  createdAt: Moment,
  disabledAt: MomentOrNull,
  deletedAt: Type.Union([Moment, Type.Null()], {
    description: 'Lists leave deleted users out; by its ID one is still found.',
  }),
});
export type User = Type.Static<typeof User>;

export const NewUserBody = Type.Object(
  { email: Email, password: Password, role: RoleName },
  { additionalProperties: false },
);
export type NewUserBody = Type.Static<typeof NewUserBody>;

export const UserChange = Type.Object(
  { role: Type.Optional(RoleName), disabled: Type.Optional(Type.Boolean()) },
  { additionalProperties: false, minProperties: 1 },
);
export type UserChange = Type.Static<typeof UserChange>;

export const UserParams = Type.Object({ userId: Type.String() });
