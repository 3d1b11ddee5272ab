import type { Issuer } from './issuer.ts';
import { type Role, type Scope, scopesBeyond, scopesOfRole } from './scopes.ts';
import { ownerRequired, scopeNotGrantable, targetAboveCaller } from './tenants.errors.ts';

type Caller = Pick<Issuer, 'scopes' | 'role'>;

/**
 * Whoever gives a user a role chooses the password or takes over the account, and so could use every scope of the role.
 * @throws OWNER_REQUIRED, SCOPE_NOT_GRANTABLE
 */
export function checkMayGrantRole(caller: Caller, role: Role): void {
  const beyond = scopesBeyond(caller, scopesOfRole(role));
  if (beyond.length > 0) throw scopeNotGrantable({ extra: { scopes: beyond } });
  requireOwnerFor(caller, role);
}

/** @throws SCOPE_NOT_GRANTABLE */
export function checkMayGrantScopes(caller: Pick<Issuer, 'scopes'>, scopes: readonly Scope[]): void {
  const beyond = scopesBeyond(caller, scopes);
  if (beyond.length > 0) throw scopeNotGrantable({ extra: { scopes: beyond } });
}

/**
 * Changing, disabling, deleting a user and resetting its password need every scope of its role; an owner needs an owner.
 * @throws OWNER_REQUIRED, TARGET_ABOVE_CALLER
 */
export function checkMayManageUser(caller: Caller, role: Role): void {
  const beyond = scopesBeyond(caller, scopesOfRole(role));
  if (beyond.length > 0) throw targetAboveCaller({ extra: { scopes: beyond } });
  requireOwnerFor(caller, role);
}

/** Whether `checkMayManageUser` would let it pass. */
export function mayManageUser(caller: Caller, role: Role): boolean {
  return (
    scopesBeyond(caller, scopesOfRole(role)).length === 0 && (role !== 'owner' || caller.role === 'owner')
  );
}

/**
 * Revoking, rotating or shortening a key needs every scope that it has.
 * @throws TARGET_ABOVE_CALLER
 */
export function checkMayManageKey(caller: Pick<Issuer, 'scopes'>, scopes: readonly Scope[]): void {
  const beyond = scopesBeyond(caller, scopes);
  if (beyond.length > 0) throw targetAboveCaller({ extra: { scopes: beyond } });
}

function requireOwnerFor(caller: Caller, role: Role): void {
  if (role === 'owner' && caller.role !== 'owner') throw ownerRequired();
}
