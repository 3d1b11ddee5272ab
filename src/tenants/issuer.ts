import type { Queryable, Transaction } from '../platform/db/database.ts';
import type { TenantId } from '../shared/ids.ts';
import { lockRightsOfUser, lockScopesOfApiKey } from './rights.sql.ts';
import {
  type Principal,
  type Role,
  type Scope,
  SCOPES,
  apiKeyOfActor,
  isScope,
  scopesOfRole,
  userOfActor,
} from './scopes.ts';
import { lockTenant } from './tenant.sql.ts';
import { credentialRevoked, scopeMissing } from './tenants.errors.ts';

/** What somebody may do, as the database says now. */
interface Rights {
  readonly scopes: ReadonlySet<Scope>;
  /** Of a user; an API key has none. */
  readonly role: Role | undefined;
}

/**
 * Who issues a credential: an API key, a user, a role, a password reset. The statements that write one ask for an Issuer instead of a
 * connection, so a route that trusts its cached principal does not compile. It is bound to the transaction that it was read in.
 */
export class Issuer implements Rights {
  readonly db: Queryable;
  readonly tenantId: TenantId;
  /** `user:<ID>`, `key:<ID>`, or who the operator says. */
  readonly actor: string;
  /** A private field makes the type nominal: an object that only looks like an Issuer is none. */
  readonly #rights: Rights;

  private constructor(db: Queryable, tenantId: TenantId, actor: string, rights: Rights) {
    this.db = db;
    this.tenantId = tenantId;
    this.actor = actor;
    this.#rights = rights;
  }

  get scopes(): ReadonlySet<Scope> {
    return this.#rights.scopes;
  }

  get role(): Role | undefined {
    return this.#rights.role;
  }

  /**
   * Reads the caller again, in the transaction that issues. Locks the tenant, which makes its issuing transactions take turns, and then
   * the caller, so that nobody disables or demotes it before the commit.
   * @throws CREDENTIAL_REVOKED when the caller has ended meanwhile, SCOPE_MISSING when it has lost the scope
   */
  static async verify(tx: Transaction, principal: Principal, scope: Scope | null): Promise<Issuer> {
    const { tenantId, actor, generation } = principal;
    await lockTenant(tx, tenantId);
    const rights = await rightsOf(tx, tenantId, actor, generation);
    if (rights === undefined) throw credentialRevoked();
    if (scope !== null && !rights.scopes.has(scope))
      throw scopeMissing({ detail: `This needs the scope ${scope}.`, extra: { scope } });
    return new Issuer(tx, tenantId, actor, rights);
  }

  /** Who issued something earlier, when that one may still do it; else undefined. Locks as `verify`. */
  static async again(tx: Transaction, tenantId: TenantId, actor: string): Promise<Issuer | undefined> {
    await lockTenant(tx, tenantId);
    const rights = await rightsOf(tx, tenantId, actor, 'any');
    return rights?.scopes.has('users:write') ? new Issuer(tx, tenantId, actor, rights) : undefined;
  }

  /** Whoever has the database may do everything: the command line, tests, and a bootstrap token, which comes from there. */
  static operator(db: Queryable, tenantId: TenantId, actor: string): Issuer {
    return new Issuer(db, tenantId, actor, { scopes: new Set(SCOPES), role: 'owner' });
  }
}

/** Undefined when the user or key has ended, or the user's generation is another one. Locks the row. */
async function rightsOf(
  tx: Transaction,
  tenantId: TenantId,
  actor: string,
  generation: number | null | 'any',
): Promise<Rights | undefined> {
  const userId = userOfActor(actor);
  if (userId !== undefined) {
    const user = await lockRightsOfUser(tx, tenantId, userId);
    if (user === undefined || (generation !== 'any' && user.generation !== generation)) return undefined;
    return { scopes: scopesOfRole(user.role), role: user.role };
  }
  const apiKeyId = apiKeyOfActor(actor);
  const scopes = apiKeyId && (await lockScopesOfApiKey(tx, tenantId, apiKeyId));
  return scopes && { scopes: new Set(scopes.filter(isScope)), role: undefined };
}
