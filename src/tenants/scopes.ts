import { type ApiKeyId, type TenantId, type UserId, isId } from '../shared/ids.ts';

/** What a credential may be allowed to do. Stored as text in `api_keys.scopes`, so names never change their meaning. */
export const SCOPES = [
  'events:write',
  'events:read',
  'endpoints:read',
  'endpoints:write',
  'endpoints:secrets',
  'deliveries:read',
  'deliveries:write',
  'keys:read',
  'keys:write',
  'users:read',
  'users:write',
  'stats:read',
] as const;
export type Scope = (typeof SCOPES)[number];

export const ROLES = ['owner', 'admin', 'developer', 'viewer'] as const;
export type Role = (typeof ROLES)[number];

const ALL_SCOPES: ReadonlySet<Scope> = new Set(SCOPES);
const ADMINISTRATIVE: readonly Scope[] = ['users:write', 'keys:write', 'endpoints:secrets'];
/** A developer sets header values and rotates secrets, but reads none: credentials of receivers often belong to somebody else. */
const DEVELOPER_SCOPES: ReadonlySet<Scope> = new Set(
  SCOPES.filter((scope) => !ADMINISTRATIVE.includes(scope)),
);
/** Names and last uses of keys help only those who may change them, so a viewer does not get `keys:read`. */
const VIEWER_SCOPES: ReadonlySet<Scope> = new Set(
  SCOPES.filter((scope) => scope.endsWith(':read') && scope !== 'keys:read'),
);

/**
 * The scopes that a signed-in user of this role has. Owner and admin have the same; what only an owner may do is make,
 * change or disable owners (user.service.ts).
 */
export function scopesOfRole(role: Role): ReadonlySet<Scope> {
  switch (role) {
    case 'owner':
    case 'admin':
      return ALL_SCOPES;
    case 'developer':
      return DEVELOPER_SCOPES;
    case 'viewer':
      return VIEWER_SCOPES;
  }
}

export function isScope(text: string): text is Scope {
  return (ALL_SCOPES as ReadonlySet<string>).has(text);
}

/** Who is asking, for which tenant, and what they may do. Made by the authenticator only. */
export interface Principal {
  readonly tenantId: TenantId;
  /** `user:<user ID>` or `key:<API key ID>`; what "created by" and "requested by" columns keep. */
  readonly actor: string;
  readonly scopes: ReadonlySet<Scope>;
  /** Of the access token; null for an API key. */
  readonly generation: number | null;
}

/** The scopes of `wanted` that the holder does not have, in their order. Nobody may hand on what they lack. */
export function scopesBeyond(
  holder: { readonly scopes: ReadonlySet<Scope> },
  wanted: Iterable<Scope>,
): Scope[] {
  return [...wanted].filter((scope) => !holder.scopes.has(scope));
}

/** The user behind an actor, or undefined when it is an API key or the command line. */
export function userOfActor(actor: string): UserId | undefined {
  const id = actor.startsWith('user:') ? actor.slice('user:'.length) : '';
  return isId(id) ? (id as UserId) : undefined;
}

/** The API key behind an actor, or undefined when it is a user or the command line. */
export function apiKeyOfActor(actor: string): ApiKeyId | undefined {
  const id = actor.startsWith('key:') ? actor.slice('key:'.length) : '';
  return isId(id) ? (id as ApiKeyId) : undefined;
}
