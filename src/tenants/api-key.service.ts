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
import { type Page, type PageQuery, idAfter, toPage } from '../platform/http/page.ts';
import { type Principal, type Scope, isScope, scopesBeyond } from './scopes.ts';
import { digestOf, mintApiKey } from './secret-token.ts';
import { apiKeyEnded, scopeNotGrantable } from './tenants.errors.ts';

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

  /** @throws SCOPE_NOT_GRANTABLE; REQUEST_INVALID when the expiry has passed */
  async create(principal: Principal, body: NewApiKeyBody): Promise<NewApiKey> {
    checkGrantable(principal, body.scopes);
    const expiresAt = expiryOf(body.expiresAt ?? null);
    const { database, clock } = this.#options;
    const order = { name: body.name, scopes: body.scopes, expiresAt, actor: principal.actor };
    const { row, key } = await issue(database.requests, principal.tenantId, order, clock);
    return { apiKey: toApiKey(row), key };
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
   * @throws NOT_FOUND, API_KEY_ENDED, SCOPE_NOT_GRANTABLE; REQUEST_INVALID when the expiry has passed
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
   * @throws NOT_FOUND
   */
  async revoke(principal: Principal, apiKeyId: string): Promise<void> {
    const { database, onChanged } = this.#options;
    const keyHash = await revokeApiKey(database.requests, principal.tenantId, checkedId(apiKeyId));
    if (keyHash === undefined) throw routeNotFound();
    onChanged(keyHash);
  }

  async #rotate(
    tx: Transaction,
    principal: Principal,
    apiKeyId: ApiKeyId,
    body: RotationBody,
  ): Promise<{ keyHash: Buffer; rotated: RotatedApiKey }> {
    const { tenantId, actor } = principal;
    const old = await lockApiKey(tx, tenantId, apiKeyId);
    if (old === undefined) throw routeNotFound();
    if (old.ended) throw apiKeyEnded();
    const scopes = old.scopes.filter(isScope);
    checkGrantable(principal, scopes);
    const expiresAt = body.expiresAt === undefined ? old.expires_at : expiryOf(body.expiresAt);
    const order = { name: old.name, scopes, expiresAt, actor };
    const { row, key } = await issue(tx, tenantId, order, this.#options.clock);
    const overlapS = body.overlapSeconds ?? this.#options.rotationOverlapS;
    const endsAt = await expireApiKey(tx, tenantId, apiKeyId, overlapS);
    const previous = { apiKeyId, expiresAt: endsAt.toISOString() };
    return { keyHash: old.key_hash, rotated: { apiKey: toApiKey(row), key, previous } };
  }
}

/** What a new API key shall be. */
export interface ApiKeyOrder {
  readonly name: string;
  readonly scopes: readonly Scope[];
  readonly expiresAt?: Date | null;
  /** Who makes it, e.g. `user:<ID>` or `cli`. */
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
  order: ApiKeyOrder,
  clock: Clock = systemClock,
): Promise<{ readonly apiKeyId: ApiKeyId; readonly key: string }> {
  const { row, key } = await issue(db, tenantId, order, clock);
  return { apiKeyId: row.api_key_id, key };
}

async function issue(
  db: Queryable,
  tenantId: TenantId,
  order: ApiKeyOrder,
  clock: Clock,
): Promise<{ row: ApiKeyRow; key: string }> {
  const { key, prefix } = mintApiKey();
  const row = await insertApiKey(db, tenantId, {
    apiKeyId: newId<ApiKeyId>(clock.now()),
    name: order.name,
    prefix,
    hash: digestOf(key),
    scopes: order.scopes,
    createdBy: order.actor,
    expiresAt: order.expiresAt ?? null,
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

function checkGrantable(principal: Principal, scopes: readonly Scope[]): void {
  const beyond = scopesBeyond(principal, scopes);
  if (beyond.length > 0) throw scopeNotGrantable({ extra: { scopes: beyond } });
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
