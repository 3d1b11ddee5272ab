import type { Transaction } from '../platform/db/database.ts';
import { type Page, type PageQuery, idAfter, toPage } from '../platform/http/page.ts';
import { routeNotFound } from '../platform/http/problem.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';
import type { Principal } from '../tenants/index.ts';
import { checkedEndpointId, checkedSubscriptionId } from './checked-ids.ts';
import { bumpRoutingVersion } from './directory.sql.ts';
import { refuse } from './endpoint-rules.ts';
import { endpointExists, touchEndpoint } from './endpoint.sql.ts';
import type { EndpointsDeps } from './endpoints-deps.ts';
import { subscriptionInvalid, subscriptionLimitReached } from './endpoints.errors.ts';
import { toSubscription, withNewIds } from './subscription.dto.ts';
import { MAX_SUBSCRIPTIONS, subscriptionProblems } from './subscription-rules.ts';
import type { Subscription, SubscriptionBody, SubscriptionChange } from './subscription.schemas.ts';
import {
  type StoredSubscription,
  countSubscriptions,
  deleteSubscription,
  insertSubscriptions,
  listSubscriptions,
  updateSubscription,
} from './subscription.sql.ts';

/** What the endpoints of the caller's tenant subscribe to. */
export class SubscriptionService {
  readonly #deps: EndpointsDeps;

  constructor(deps: EndpointsDeps) {
    this.#deps = deps;
  }

  /** @throws NOT_FOUND, SUBSCRIPTION_INVALID, SUBSCRIPTION_LIMIT_REACHED */
  async create({ tenantId }: Principal, endpointId: string, body: SubscriptionBody): Promise<Subscription> {
    const id = checkedEndpointId(endpointId);
    refuse([[subscriptionInvalid, subscriptionProblems(body)]]);
    const row = await this.#changeRouting(tenantId, id, async (tx) => {
      if ((await countSubscriptions(tx, id)) >= MAX_SUBSCRIPTIONS)
        throw subscriptionLimitReached({
          detail: `An endpoint may have ${MAX_SUBSCRIPTIONS} subscriptions.`,
        });
      const [stored] = await insertSubscriptions(tx, tenantId, id, withNewIds([body], this.#deps.clock));
      return stored;
    });
    return toSubscription(row);
  }

  /** @throws NOT_FOUND when there is no such endpoint; CURSOR_INVALID */
  async list({ tenantId }: Principal, endpointId: string, query: PageQuery): Promise<Page<Subscription>> {
    const id = checkedEndpointId(endpointId);
    const { requests } = this.#deps.database;
    const page = { before: idAfter(query), limit: query.limit + 1 };
    if (!(await endpointExists(requests, tenantId, id))) throw routeNotFound();
    const rows = await listSubscriptions(requests, tenantId, id, page);
    return toPage(rows, query.limit, (row) => row.subscription_id, toSubscription);
  }

  /**
   * What is absent stays; a filter of null is removed. Events accepted before keep the deliveries that they caused.
   * @throws NOT_FOUND, SUBSCRIPTION_INVALID
   */
  async change(
    { tenantId }: Principal,
    endpointId: string,
    subscriptionId: string,
    body: SubscriptionChange,
  ): Promise<Subscription> {
    const id = checkedEndpointId(endpointId);
    const subscription = checkedSubscriptionId(subscriptionId);
    refuse([[subscriptionInvalid, subscriptionProblems(body)]]);
    const row = await this.#changeRouting(tenantId, id, (tx) =>
      updateSubscription(tx, tenantId, id, subscription, body),
    );
    return toSubscription(row);
  }

  /** @throws NOT_FOUND */
  async remove({ tenantId }: Principal, endpointId: string, subscriptionId: string): Promise<void> {
    const id = checkedEndpointId(endpointId);
    const subscription = checkedSubscriptionId(subscriptionId);
    await this.#changeRouting(tenantId, id, async (tx) =>
      (await deleteSubscription(tx, tenantId, id, subscription)) ? true : undefined,
    );
  }

  /**
   * Runs `work` in one transaction with all that a change of routing means: the endpoint is locked and gets a new version, the
   * tenant's routing gets a new version, and after the commit this process forgets what it knew. The order of the two locks is the
   * same everywhere, so that changes cannot wait for each other in a circle.
   * @throws NOT_FOUND when there is no such endpoint or `work` finds nothing (undefined); everything is then rolled back
   */
  async #changeRouting<T extends StoredSubscription | true>(
    tenantId: TenantId,
    endpointId: EndpointId,
    work: (tx: Transaction) => Promise<T | undefined>,
  ): Promise<T> {
    const { database, directory } = this.#deps;
    const result = await database.transaction(async (tx) => {
      if (!(await touchEndpoint(tx, tenantId, endpointId))) throw routeNotFound();
      const found = await work(tx);
      if (found === undefined) throw routeNotFound();
      await bumpRoutingVersion(tx, tenantId);
      return found;
    });
    directory.forgetTarget(endpointId);
    directory.forgetRouting(tenantId);
    return result;
  }
}
