import type { Database, Queryable, Transaction } from '../platform/db/database.ts';
import { requestInvalid, routeNotFound } from '../platform/http/problem.ts';
import { type Clock, systemClock } from '../shared/clock.ts';
import { type ApiKeyId, type TenantId, isId, newId } from '../shared/ids.ts';
import type { ApiKey, NewApiKey, NewApiKeyBody, RotatedApiKey, RotationBody } from './api-key.schemas.ts';
import {
  type ApiKeyRow,
  expireApiKey,
  insertApiKey,
  listApiKeys,
  lockApiKey,
  revokeApiKey,
} from './api-key.sql.ts';
import { Issuer } from './issuer.ts';
import { checkMayGrantScopes, checkMayManageKey } from './may-manage.ts';
import { type Page, type PageQuery, idAfter, toPage } from '../platform/http/page.ts';
import { type Principal, type Scope, isScope } from './scopes.ts';
import { digestOf, mintApiKey } from './secret-token.ts';
import { apiKeyEnded } from './tenants.errors.ts';

export interface ApiKeyServiceOptions {
  readonly database: Database;
  readonly clock: Clock;
  /** Overlap of a rotation in seconds, when the request does not say. */
  readonly rotationOverlapS: number;
  /** Told after a change has been committed, so that this process stops trusting what it knew. */
  readonly onChanged: (keyHash: Buffer) => void;
}

/** The API keys of the caller's tenant. */
export class ApiKeyService {
  readonly #options: ApiKeyServiceOptions;

  constructor(options: ApiKeyServiceOptions) {
    this.#options = options;
  }

  /** @throws SCOPE_NOT_GRANTABLE; REQUEST_INVALID when the expiry has passed; as `Issuer.verify` */
  async create(principal: Principal, body: NewApiKeyBody): Promise<NewApiKey> {
    const expiresAt = expiryOf(body.expiresAt ?? null);
    const { database, clock } = this.#options;
    return database.transaction(async (tx) => {
      const issuer = await Issuer.verify(tx, principal, 'keys:write');
      checkMayGrantScopes(issuer, body.scopes);
      const { row, key } = await issue(issuer, { name: body.name, scopes: body.scopes, expiresAt }, clock);
      return { apiKey: toApiKey(row), key };
    });
  }

  /** @throws CURSOR_INVALID */
  async list(principal: Principal, query: PageQuery): Promise<Page<ApiKey>> {
    const { requests } = this.#options.database;
    const rows = await listApiKeys(requests, principal.tenantId, idAfter(query), query.limit + 1);
    return toPage(rows, query.limit, (row) => row.api_key_id, toApiKey);
  }

  /**
   * Makes a new key with the name and scopes of the old one, which goes on until the overlap has passed. The new key expires when
   * the old one would have, unless the request says otherwise: a rotation alone never lengthens what somebody limited.
   * @throws NOT_FOUND, API_KEY_ENDED, SCOPE_NOT_GRANTABLE; REQUEST_INVALID when the expiry has passed; as `Issuer.verify`
   */
  async rotate(principal: Principal, apiKeyId: string, body: RotationBody): Promise<RotatedApiKey> {
    const id = checkedId(apiKeyId);
    const { keyHash, rotated } = await this.#options.database.transaction((tx) =>
      this.#rotate(tx, principal, id, body),
    );
    this.#options.onChanged(keyHash);
    return rotated;
  }

  /**
   * Stops a key: at once in this process, within auth.keyCacheMs in the others. Revoking it again changes nothing.
   * @throws NOT_FOUND, TARGET_ABOVE_CALLER; as `Issuer.verify`
   */
  async revoke(principal: Principal, apiKeyId: string): Promise<void> {
    const { database, onChanged } = this.#options;
    const id = checkedId(apiKeyId);
    const keyHash = await database.transaction(async (tx) => {
      const issuer = await Issuer.verify(tx, principal, 'keys:write');
      const key = await lockApiKey(tx, principal.tenantId, id);
      if (key === undefined) throw routeNotFound();
      checkMayManageKey(issuer, key.scopes.filter(isScope));
      await revokeApiKey(tx, principal.tenantId, id);
      return key.key_hash;
    });
    onChanged(keyHash);
  }

  async #rotate(
    tx: Transaction,
    principal: Principal,
    apiKeyId: ApiKeyId,
    body: RotationBody,
  ): Promise<{ keyHash: Buffer; rotated: RotatedApiKey }> {
    const { tenantId } = principal;
    const issuer = await Issuer.verify(tx, principal, 'keys:write');
    const old = await lockApiKey(tx, tenantId, apiKeyId);
    if (old === undefined) throw routeNotFound();
    if (old.ended) throw apiKeyEnded();
    const scopes = old.scopes.filter(isScope);
    checkMayGrantScopes(issuer, scopes);
    const expiresAt = body.expiresAt === undefined ? old.expires_at : expiryOf(body.expiresAt);
    const { row, key } = await issue(issuer, { name: old.name, scopes, expiresAt }, this.#options.clock);
    const overlapS = body.overlapSeconds ?? this.#options.rotationOverlapS;
    const endsAt = await expireApiKey(tx, tenantId, apiKeyId, overlapS);
    const previous = { apiKeyId, expiresAt: endsAt.toISOString() };
    return { keyHash: old.key_hash, rotated: { apiKey: toApiKey(row), key, previous } };
  }
}

/** What a new API key shall be. */
interface ApiKeyContent {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly expiresAt?: Date | null;
}

export interface ApiKeyOrder extends ApiKeyContent {
  /** Who makes it, e.g. `cli`. */
  readonly actor: string;
}

/**
 * Makes an API key without asking whether the actor may; for the command line and for tests.
 * @returns the key, which is shown now and never again
 * @throws REQUEST_INVALID when the expiry has passed
 */
export async function createApiKey(
  db: Queryable,
  tenantId: TenantId,
  { actor, ...content }: ApiKeyOrder,
  clock: Clock = systemClock,
): Promise<{ readonly apiKeyId: ApiKeyId; readonly key: string }> {
  const { row, key } = await issue(Issuer.operator(db, tenantId, actor), content, clock);
  return { apiKeyId: row.api_key_id, key };
}

async function issue(
  issuer: Issuer,
  content: ApiKeyContent,
  clock: Clock,
): Promise<{ row: ApiKeyRow; key: string }> {
  const { key, prefix } = mintApiKey();
  const row = await insertApiKey(issuer, {
    apiKeyId: newId<ApiKeyId>(clock.now()),
    name: content.name,
    prefix,
    hash: digestOf(key),
    scopes: content.scopes,
    expiresAt: content.expiresAt ?? null,
  });
  if (row === undefined) throw expiryInvalid('has passed already');
  return { row, key };
}

/** The schema lets a leap second through, which no Date can hold. */
function expiryOf(text: string | null): Date | null {
  if (text === null) return null;
  const moment = new Date(text);
  if (Number.isNaN(moment.getTime())) throw expiryInvalid('is not a moment');
  return moment;
}

function expiryInvalid(reason: string): Error {
  return requestInvalid({ fields: [{ field: 'body/expiresAt', reason }] });
}

/** A malformed ID looks the same as one that does not exist. */
function checkedId(text: string): ApiKeyId {
  if (!isId(text)) throw routeNotFound();
  return text as ApiKeyId;
}

function toApiKey(row: ApiKeyRow): ApiKey {
  return {
    apiKeyId: row.api_key_id,
    name: row.name,
    prefix: row.prefix,
    scopes: row.scopes.filter(isScope),
    createdBy: row.created_by,
    createdAt: row.created_at.toISOString(),
    expiresAt: row.expires_at?.toISOString() ?? null,
    revokedAt: row.revoked_at?.toISOString() ?? null,
    lastUsedAt: row.last_used_at?.toISOString() ?? null,
  };
}
