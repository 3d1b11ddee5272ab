import { defineError } from '../shared/errors.ts';

// Credentials --------------------------------------------------------------------------------------------------------

export const credentialMissing = defineError({
  code: 'CREDENTIAL_MISSING',
  kind: 'unauthenticated',
  title: 'This route needs a credential.',
  fix: 'Send "Authorization: Bearer" with an API key (rok_…) or an access token from /v1/auth/login.',
});
export const credentialInvalid = defineError({
  code: 'CREDENTIAL_INVALID',
  kind: 'unauthenticated',
  title: 'The credential is not known.',
  fix: 'Check that the whole key or token was sent and that it belongs to this installation.',
});
export const credentialExpired = defineError({
  code: 'CREDENTIAL_EXPIRED',
  kind: 'unauthenticated',
  title: 'The credential has expired.',
  fix: 'Refresh the access token at /v1/auth/refresh, or make or rotate the API key.',
});
export const credentialRevoked = defineError({
  code: 'CREDENTIAL_REVOKED',
  kind: 'unauthenticated',
  title: 'The API key was revoked, the session was ended, or the user was disabled or deleted.',
  fix: 'Log in again, or ask an administrator of the tenant for a new key or to enable the user.',
});
export const loginFailed = defineError({
  code: 'LOGIN_FAILED',
  kind: 'unauthenticated',
  title: 'E-mail or password is wrong, or the user is disabled.',
  fix: 'Check both; an administrator of the tenant can see whether the user is disabled.',
});
export const loginThrottled = defineError({
  code: 'LOGIN_THROTTLED',
  kind: 'rate_limited',
  title: 'Too many failed tries with this e-mail, from this address, or in all.',
  fix: 'Wait for the time in Retry-After.',
});
export const tokenThrottled = defineError({
  code: 'TOKEN_THROTTLED',
  kind: 'rate_limited',
  title: 'Too many tokens from this address were not valid.',
  fix: 'Wait for the time in Retry-After, and do not send a token again that was refused.',
});
export const refreshTokenInvalid = defineError({
  code: 'REFRESH_TOKEN_INVALID',
  kind: 'unauthenticated',
  title: 'The refresh token is unknown, expired, revoked or was used before.',
  fix: 'Log in again. A token that comes a second time ends all sessions of its user, because somebody else may hold it.',
});
export const bootstrapTokenInvalid = defineError({
  code: 'BOOTSTRAP_TOKEN_INVALID',
  kind: 'unauthenticated',
  title: 'The bootstrap token is unknown, expired or was used before.',
  fix: 'Ask the operator of this installation for a new one.',
});

export const passwordResetInvalid = defineError({
  code: 'PASSWORD_RESET_INVALID',
  kind: 'unauthenticated',
  title: 'The password reset token is unknown, expired, replaced or was used before.',
  fix: 'Ask an administrator of the tenant for a new one.',
});

// Permissions --------------------------------------------------------------------------------------------------------

export const scopeMissing = defineError({
  code: 'SCOPE_MISSING',
  kind: 'forbidden',
  title: 'The credential does not have the scope that this needs.',
  fix: 'Use a credential with the scope under "scope".',
});
export const scopeNotGrantable = defineError({
  code: 'SCOPE_NOT_GRANTABLE',
  kind: 'forbidden',
  title: 'A credential cannot give others more than it has itself.',
  fix: 'Leave out the scopes listed under "scopes", choose a smaller role, or use a credential that has them.',
});
export const ownerRequired = defineError({
  code: 'OWNER_REQUIRED',
  kind: 'forbidden',
  title: 'Only an owner may make, change, disable or delete an owner or reset its password.',
  fix: 'Log in as an owner of the tenant.',
});
export const targetAboveCaller = defineError({
  code: 'TARGET_ABOVE_CALLER',
  kind: 'forbidden',
  title: 'A credential cannot change what may do more than itself.',
  fix: 'Use a credential that has the scopes listed under "scopes".',
});
export const userRequired = defineError({
  code: 'USER_REQUIRED',
  kind: 'forbidden',
  title: 'This needs a signed-in user; an API key has no password.',
  fix: 'Send an access token from /v1/auth/login.',
});
export const ownPasswordReset = defineError({
  code: 'OWN_PASSWORD_RESET',
  kind: 'forbidden',
  title: "Nobody resets one's own password: changing it needs the current one.",
  fix: 'Use POST /v1/me/password, or ask another administrator of the tenant.',
});
export const passwordWrong = defineError({
  code: 'PASSWORD_WRONG',
  kind: 'forbidden',
  title: 'The current password is wrong.',
  fix: 'Correct "currentPassword", or have an administrator of the tenant reset it.',
});

// State --------------------------------------------------------------------------------------------------------------

export const emailTaken = defineError({
  code: 'EMAIL_TAKEN',
  kind: 'conflict',
  title: 'This e-mail address cannot be used: it belongs to a user already.',
  fix: 'Use another e-mail address. An address belongs to one user of the whole installation.',
});
export const emailTriesThrottled = defineError({
  code: 'EMAIL_TRIES_THROTTLED',
  kind: 'rate_limited',
  title: 'Too many e-mail addresses that cannot be used.',
  fix: 'Wait for the time in Retry-After.',
});
export const lastOwner = defineError({
  code: 'LAST_OWNER',
  kind: 'conflict',
  title: 'A tenant keeps at least one active owner.',
  fix: 'Make another user an owner first.',
});
export const apiKeyEnded = defineError({
  code: 'API_KEY_ENDED',
  kind: 'conflict',
  title: 'The API key is revoked or has expired.',
  fix: 'Make a new key.',
});
