import {
  compileFilter,
  ExpressionError,
  type Filter,
  type FilterScope,
} from '../platform/expressions/index.ts';
import type { EndpointId } from '../shared/ids.ts';
import { matchesPattern } from './patterns.ts';

export interface SubscriptionRow {
  readonly endpointId: EndpointId;
  readonly pattern: string;
  readonly filter: string | null;
}

/** An endpoint that an event goes to. With an error, its filter could not be evaluated: the delivery is stored as failed, visibly. */
export interface Route {
  readonly endpointId: EndpointId;
  readonly filterError: string | null;
}

interface CompiledSubscription extends SubscriptionRow {
  readonly compiled: Filter | { readonly error: string } | null;
}

const EVERYTHING = '*';
const CACHED_TYPES = 1_000;

/** Who gets which event of one tenant, as of one version of its configuration. Immutable but for a memo by type. */
export class RoutingTable {
  /** Compared with the database's at acceptance; a difference means that this table is old. */
  readonly version: number;
  readonly #subscriptions: readonly SubscriptionRow[];
  readonly #byType = new Map<string, readonly CompiledSubscription[]>();

  /** @param rows sorted by endpoint, which is the order of the routes */
  constructor(version: number, rows: readonly SubscriptionRow[]) {
    this.version = version;
    this.#subscriptions = rows.map((row) => ({
      ...row,
      compiled: row.filter === null ? null : compiled(row.filter),
    }));
  }

  /**
   * The endpoints for an event, each once, sorted. One subscription that lets it through is enough; when none does, one that
   * could not be evaluated makes the route an error.
   * @param about set for operational events: the endpoint they tell of, which does not get them; nor do those that subscribe to `*`, which stands
   *   for the tenant's own events
   * @param scope is called at most once, and only when a filter has to look at the event
   */
  route(type: string, scope: () => FilterScope, about?: EndpointId): Route[] {
    const candidates = this.#candidates(type);
    if (candidates.length === 0) return [];
    const routes = new Map<EndpointId, Route>();
    let evaluated: FilterScope | undefined;
    for (const { endpointId, pattern, compiled: filter } of candidates) {
      if (about !== undefined && (pattern === EVERYTHING || endpointId === about)) continue;
      if (routes.get(endpointId)?.filterError === null) continue;
      const verdict = filter === null ? true : judge(filter, (evaluated ??= scope()));
      if (verdict === true) routes.set(endpointId, { endpointId, filterError: null });
      else if (verdict !== false) routes.set(endpointId, { endpointId, filterError: verdict });
    }
    return [...routes.values()];
  }

  #candidates(type: string): readonly CompiledSubscription[] {
    let found = this.#byType.get(type);
    if (found === undefined) {
      found = this.#subscriptions
        .filter((subscription) => matchesPattern(subscription.pattern, type))
        .map((row) => ({ ...row, compiled: row.filter === null ? null : compiled(row.filter) }));
      if (this.#byType.size >= CACHED_TYPES) this.#byType.clear();
      this.#byType.set(type, found);
    }
    return found;
  }
}

/** Compiled filters by their source: a change of one subscription must not compile all others again. */
const compiledFilters = new Map<string, Filter | { readonly error: string }>();
const COMPILED_FILTERS = 10_000;

function compiled(source: string): Filter | { readonly error: string } {
  let filter = compiledFilters.get(source);
  if (filter === undefined) {
    filter = compileOrExplain(source);
    if (compiledFilters.size >= COMPILED_FILTERS) compiledFilters.clear();
    compiledFilters.set(source, filter);
  }
  return filter;
}

function compileOrExplain(source: string): Filter | { readonly error: string } {
  try {
    return compileFilter(source);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return { error: storable(error.message) };
  }
}

const MAX_ERROR_LENGTH = 300;

/** Texts of errors hold pieces of payloads: cut, and without U+0000, which PostgreSQL's text cannot hold. */
function storable(text: string): string {
  return text.replaceAll('\0', '\uFFFD').slice(0, MAX_ERROR_LENGTH);
}

/** True or false, or the text of the error. */
function judge(filter: Filter | { error: string }, scope: FilterScope): boolean | string {
  if ('error' in filter) return filter.error;
  try {
    return filter.matches(scope);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return storable(error.message);
  }
}
