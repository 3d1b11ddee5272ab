import type { Transaction } from '../platform/db/database.ts';
import { parseAllowList } from '../platform/http/address-guard.ts';
import { type Page, idAfter, toPage } from '../platform/http/page.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import { type EndpointId, newId } from '../shared/ids.ts';
import type { Principal } from '../tenants/index.ts';
import { checkedEndpointId } from './checked-ids.ts';
import { bumpRoutingVersion } from './directory.sql.ts';
import { type EndpointRules, MAX_ENDPOINTS, checkBody, refuse } from './endpoint-rules.ts';
import { toEndpoint } from './endpoint.dto.ts';
import type {
  Endpoint,
  EndpointChange,
  EndpointListQuery,
  NewEndpoint,
  NewEndpointBody,
} from './endpoint.schemas.ts';
import {
  type CountedEndpointRow,
  countEndpointsLocked,
  findEndpoint,
  insertEndpoint,
  listEndpoints,
  lockEndpoint,
  markEndpointDeleted,
  setEndpointState,
  updateEndpoint,
} from './endpoint.sql.ts';
import type { EndpointsDeps } from './endpoints-deps.ts';
import { endpointLimitReached, endpointSettingsInvalid } from './endpoints.errors.ts';
import { forgetHealth } from './health.sql.ts';
import { exposureProblems, maskProblems } from './masked-headers.ts';
import { resealEndpoints } from './reseal.ts';
import {
  changedHeaders,
  headerNames,
  maskedHeaders,
  readableHeaders,
  sealHeaders,
} from './sealed-headers.ts';
import { formatSecret, secretBytes } from './secret-box.ts';
import { deleteSecrets, insertSecret } from './secret.sql.ts';
import { DEFAULT_SETTINGS, changedSettings } from './settings.ts';
import { toSubscription, withNewIds } from './subscription.dto.ts';
import type { Subscription } from './subscription.schemas.ts';
import { deleteSubscriptions, insertSubscriptions } from './subscription.sql.ts';
import type { EndpointState } from './target.ts';

/** The endpoints of the caller's tenant. */
export class EndpointService {
  readonly #deps: EndpointsDeps;
  readonly #rules: EndpointRules;

  constructor(deps: EndpointsDeps) {
    this.#deps = deps;
    this.#rules = {
      allow: parseAllowList(deps.config['delivery.allowAddresses']),
      maxTimeoutMs: deps.config['delivery.maxTimeoutMs'],
    };
  }

  /**
   * Makes an endpoint with its secret and its subscriptions in one transaction; it gets the events that are accepted after that.
   * @returns the secret too, which is shown now and never again
   * @throws ENDPOINT_URL_REFUSED, ENDPOINT_SETTINGS_INVALID, ENDPOINT_SECRET_INVALID, SUBSCRIPTION_INVALID, ENDPOINT_LIMIT_REACHED
   */
  async create(principal: Principal, body: NewEndpointBody): Promise<NewEndpoint> {
    checkBody(body, this.#rules);
    refuse([[endpointSettingsInvalid, maskProblems(body.headers, [])]]);
    const secret = secretBytes(body.secret);
    const { row, subscriptions } = await this.#deps.database.transaction((tx) =>
      this.#create(tx, principal, body, secret),
    );
    if (subscriptions.length > 0) this.#deps.directory.forgetRouting(principal.tenantId);
    return { endpoint: this.#shown(row, principal), secret: formatSecret(secret), subscriptions };
  }

  /** @throws CURSOR_INVALID */
  async list(principal: Principal, query: EndpointListQuery): Promise<Page<Endpoint>> {
    const page = { before: idAfter(query), state: query.state ?? null, limit: query.limit + 1 };
    const rows = await listEndpoints(this.#deps.database.requests, principal.tenantId, page);
    return toPage(
      rows,
      query.limit,
      (row) => row.endpoint_id,
      (row) => this.#shown(row, principal),
    );
  }

  /** @throws NOT_FOUND */
  async get(principal: Principal, endpointId: string): Promise<Endpoint> {
    const id = checkedEndpointId(endpointId);
    const row = await findEndpoint(this.#deps.database.requests, principal.tenantId, id);
    if (row === undefined) throw routeNotFound();
    return this.#shown(row, principal);
  }

  /**
   * Changes settings: what is absent stays, null takes the default. A header whose value is the mask keeps its value. Attempts in flight
   * end under the old settings.
   * @throws NOT_FOUND, ENDPOINT_URL_REFUSED, ENDPOINT_SETTINGS_INVALID
   */
  async change(principal: Principal, endpointId: string, body: EndpointChange): Promise<Endpoint> {
    const id = checkedEndpointId(endpointId);
    checkBody(body, this.#rules);
    const { tenantId } = principal;
    const row = await this.#deps.database.transaction(async (tx) => {
      const current = await lockEndpoint(tx, tenantId, id);
      if (current === undefined) throw routeNotFound();
      refuse([
        [
          endpointSettingsInvalid,
          [
            ...maskProblems(body.headers, headerNames(current)),
            ...exposureProblems(principal, current, body),
          ],
        ],
      ]);
      const sealed = changedHeaders(this.#deps.secretBox, current, body.headers);
      const updated = await updateEndpoint(tx, tenantId, id, changedSettings(current, body, sealed));
      if (headerNames(updated).length > 0) await resealEndpoints(tx, this.#deps.secretBox, [updated]);
      return updated;
    });
    this.#deps.directory.forgetTarget(id);
    return this.#shown(row, principal);
  }

  /**
   * Deletes an endpoint for its tenant, with its subscriptions and secrets; the row stays, because deliveries name it. Its open
   * deliveries are cancelled by the workers and the janitor.
   * @throws NOT_FOUND
   */
  async remove({ tenantId }: Principal, endpointId: string): Promise<void> {
    const id = checkedEndpointId(endpointId);
    await this.#deps.database.transaction(async (tx) => {
      if (!(await markEndpointDeleted(tx, tenantId, id))) throw routeNotFound();
      await deleteSubscriptions(tx, id);
      await deleteSecrets(tx, id);
      await forgetHealth(tx, id);
      await bumpRoutingVersion(tx, tenantId);
    });
    this.#deps.directory.forgetTarget(id);
    this.#deps.directory.forgetRouting(tenantId);
  }

  /**
   * Puts an endpoint into a state, whatever state it was in. Saying it again changes nothing, unless it gives another reason.
   * Events go on being accepted for an endpoint that is not active; their deliveries wait.
   * @throws NOT_FOUND
   */
  async setState(
    principal: Principal,
    endpointId: string,
    state: Exclude<EndpointState, 'deleted'>,
    reason: string | null,
  ): Promise<Endpoint> {
    const id = checkedEndpointId(endpointId);
    await setEndpointState(this.#deps.database.requests, principal.tenantId, id, state, reason);
    const endpoint = await this.get(principal, id);
    this.#deps.directory.forgetTarget(id);
    if (state === 'active') this.#deps.onWorkMayBeDue(id);
    return endpoint;
  }

  async #create(
    tx: Transaction,
    { tenantId }: Principal,
    body: NewEndpointBody,
    secret: Buffer,
  ): Promise<{ row: CountedEndpointRow; subscriptions: Subscription[] }> {
    const { clock, secretBox } = this.#deps;
    if ((await countEndpointsLocked(tx, tenantId, MAX_ENDPOINTS)) >= MAX_ENDPOINTS)
      throw endpointLimitReached({ detail: `A tenant may have ${MAX_ENDPOINTS} endpoints.` });
    const id = newId<EndpointId>(clock.now());
    const state = body.paused === true ? 'paused' : 'active';
    const sealed = sealHeaders(secretBox, id, body.headers ?? {});
    const row = await insertEndpoint(
      tx,
      tenantId,
      id,
      state,
      changedSettings(DEFAULT_SETTINGS, body, sealed),
    );
    await insertSecret(tx, id, newId(clock.now()), secretBox.seal(secret, id));
    const wanted = withNewIds(body.subscriptions ?? [], clock);
    if (wanted.length === 0)
      return { row: { ...row, subscription_count: 0, health: null }, subscriptions: [] };
    const stored = await insertSubscriptions(tx, tenantId, id, wanted);
    await bumpRoutingVersion(tx, tenantId);
    return {
      row: { ...row, subscription_count: stored.length, health: null },
      subscriptions: stored.map(toSubscription),
    };
  }

  #shown(row: CountedEndpointRow, principal: Principal): Endpoint {
    const { config, secretBox } = this.#deps;
    const mayRead = principal.scopes.has('endpoints:secrets');
    return toEndpoint(row, config, mayRead ? readableHeaders(secretBox, row) : maskedHeaders(row));
  }
}
