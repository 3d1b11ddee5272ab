import { describe, expect, it } from 'vitest';
import type { TenantId, UserId } from '../shared/ids.ts';
import { ROLES, SCOPES, type Principal, scopesBeyond, scopesOfRole, userOfActor } from './scopes.ts';

describe('roles', () => {
  it('nest: each has all that the next one has', () => {
    for (let i = 1; i < ROLES.length; i++) {
      const wider = scopesOfRole(ROLES[i - 1]!);
      expect([...scopesOfRole(ROLES[i]!)].filter((scope) => !wider.has(scope))).toEqual([]);
    }
  });

  it('have the scopes that the documentation states', () => {
    expect([...scopesOfRole('owner')]).toEqual([...SCOPES]);
    expect(SCOPES.filter((scope) => !scopesOfRole('developer').has(scope))).toEqual([
      'endpoints:secrets',
      'keys:write',
      'users:write',
    ]);
    expect([...scopesOfRole('viewer')].every((scope) => scope.endsWith(':read'))).toBe(true);
    expect(scopesOfRole('viewer').has('keys:read')).toBe(false);
  });
});

describe('a principal', () => {
  it('lacks what it lacks', () => {
    const principal: Principal = {
      tenantId: 't' as TenantId,
      actor: 'cli',
      scopes: new Set(['events:read']),
      generation: null,
    };
    expect(scopesBeyond(principal, ['events:write', 'events:read'])).toEqual(['events:write']);
  });

  it('is a user only when its actor says so', () => {
    const id = '01890a5d-ac96-774b-bcce-b302099a8057' as UserId;
    expect(userOfActor(`user:${id}`)).toBe(id);
    for (const actor of [`key:${id}`, 'cli', 'user:', 'user:x']) expect(userOfActor(actor)).toBeUndefined();
  });
});
