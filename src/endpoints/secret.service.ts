import type { Transaction } from '../platform/db/database.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import { type EndpointId, type TenantId, newId } from '../shared/ids.ts';
import type { Principal } from '../tenants/index.ts';
import { checkedEndpointId } from './checked-ids.ts';
import { refuse, secretProblems } from './endpoint-rules.ts';
import { touchEndpoint } from './endpoint.sql.ts';
import type { EndpointsDeps } from './endpoints-deps.ts';
import { endpointSecretInvalid, secretLimitReached } from './endpoints.errors.ts';
import { formatSecret, secretBytes } from './secret-box.ts';
import type {
  CurrentSecret,
  EndpointSecret,
  EndpointSecrets,
  RotatedSecret,
  SecretRotationBody,
} from './secret.schemas.ts';
import { type SecretRow, expireSecrets, findCurrentSecret, insertSecret, listSecrets } from './secret.sql.ts';

/** Secrets in force at once: each adds a signature of some 50 bytes to a header of every request. */
export const MAX_SECRETS_IN_FORCE = 10;

/** The signing secrets of the endpoints of the caller's tenant. */
export class SecretService {
  readonly #deps: EndpointsDeps;

  constructor(deps: EndpointsDeps) {
    this.#deps = deps;
  }

  /**
   * Gives an endpoint a new secret; those before go on signing beside it until the overlap has passed, so that the receiver can
   * change over at any moment in it.
   * @returns the new secret, which is shown now and never again
   * @throws NOT_FOUND, ENDPOINT_SECRET_INVALID, SECRET_LIMIT_REACHED
   */
  async rotate(
    { tenantId }: Principal,
    endpointId: string,
    body: SecretRotationBody,
  ): Promise<RotatedSecret> {
    const id = checkedEndpointId(endpointId);
    refuse([[endpointSecretInvalid, secretProblems(body.secret)]]);
    const secret = secretBytes(body.secret);
    const overlapS = body.overlapSeconds ?? this.#deps.config['delivery.secretOverlapS'];
    const rows = await this.#deps.database.transaction((tx) =>
      this.#rotate(tx, tenantId, id, secret, overlapS),
    );
    this.#deps.directory.forgetTarget(id);
    return { secret: formatSecret(secret), secrets: rows.map(toEndpointSecret) };
  }

  /** @throws NOT_FOUND */
  async list({ tenantId }: Principal, endpointId: string): Promise<EndpointSecrets> {
    const rows = await listSecrets(this.#deps.database.requests, tenantId, checkedEndpointId(endpointId));
    // An endpoint has a secret from its creation to its deletion.
    if (rows.length === 0) throw routeNotFound();
    return { data: rows.map(toEndpointSecret) };
  }

  /** The secret that signs, for credentials that may read it. Each reading is reported. @throws NOT_FOUND */
  async readCurrent({ tenantId, actor }: Principal, endpointId: string): Promise<CurrentSecret> {
    const { database, secretBox, onSecretRead } = this.#deps;
    const id = checkedEndpointId(endpointId);
    const row = await findCurrentSecret(database.requests, tenantId, id);
    if (row === undefined) throw routeNotFound();
    const secret = formatSecret(secretBox.open(row.ciphertext, id));
    onSecretRead({ tenantId, endpointId: id, secretId: row.secret_id, actor });
    return { ...toEndpointSecret(row), secret };
  }

  /** The version is raised too, because that is what other processes look at. */
  async #rotate(
    tx: Transaction,
    tenantId: TenantId,
    endpointId: EndpointId,
    secret: Buffer,
    overlapS: number,
  ): Promise<SecretRow[]> {
    const { clock, secretBox } = this.#deps;
    if (!(await touchEndpoint(tx, tenantId, endpointId))) throw routeNotFound();
    if ((await expireSecrets(tx, endpointId, overlapS)) >= MAX_SECRETS_IN_FORCE)
      throw secretLimitReached({ detail: `An endpoint may have ${MAX_SECRETS_IN_FORCE} secrets in force.` });
    await insertSecret(tx, endpointId, newId(clock.now()), secretBox.seal(secret, endpointId));
    return listSecrets(tx, tenantId, endpointId);
  }
}

function toEndpointSecret(row: SecretRow): EndpointSecret {
  return {
    secretId: row.secret_id,
    createdAt: row.created_at.toISOString(),
    expiresAt: row.expires_at?.toISOString() ?? null,
  };
}
