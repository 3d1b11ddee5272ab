import {
  compileFilter,
  ExpressionError,
  type Filter,
  isCheapOn,
  type Verdict,
} from '../platform/expressions/index.ts';
import { TURN_MS } from '../shared/loop-turns.ts';
import type { EndpointId } from '../shared/ids.ts';
import { EqualityIndex, type FilteredSubscription } from './equality-index.ts';
import type { FilteredEvent } from './filtered-event.ts';
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

/** Evaluates filters that may be dear, by their sources. Never rejects. */
export type JudgeElsewhere = (event: FilteredEvent, sources: readonly string[]) => Promise<Verdict[]>;

/** Who may get the events of one type. */
interface Plan {
  /** Endpoints that get every event of the type, sorted. Shared by all of them. */
  readonly open: readonly Route[];
  /** For the other endpoints, sorted by endpoint. */
  readonly filtered: readonly FilteredSubscription[];
  readonly index: EqualityIndex;
}

const EVERYTHING = '*';
/** What the memo of one table may hold, in subscriptions. */
const MAX_REMEMBERED = 50_000;
/** How many filters are judged between two looks at the clock. */
const LOOK_AFTER = 32;

/** Who gets which event of one tenant, as of one version of its configuration. Immutable but for a memo by type. */
export class RoutingTable {
  /** Compared with the database's at acceptance; a difference means that this table is old. */
  readonly version: number;
  readonly #subscriptions: readonly SubscriptionRow[];
  readonly #plans = new Map<string, Plan>();
  #remembered = 0;

  /** @param rows sorted by endpoint, which is the order of the routes */
  constructor(version: number, rows: readonly SubscriptionRow[]) {
    this.version = version;
    this.#subscriptions = rows;
  }

  /**
   * The endpoints for an event, each once, sorted. One subscription that lets it through is enough; when none does, one that
   * could not be evaluated makes the route an error.
   *
   * Filters that are cheap on this event run here, for `TURN_MS` at most; a promise stands for those that run elsewhere.
   * @param about set for operational events: the endpoint they tell of, which does not get them; nor do those that subscribe to `*`, which stands
   *   for the tenant's own events
   */
  route(
    type: string,
    event: FilteredEvent,
    judgeElsewhere: JudgeElsewhere,
    about?: EndpointId,
  ): readonly Route[] | Promise<readonly Route[]> {
    const plan = about === undefined ? this.#planOf(type) : this.#makePlan(type, about);
    if (plan.filtered.length === 0) return plan.open;
    const verdicts: (Verdict | undefined)[] = new Array<undefined>(plan.filtered.length);
    const rest = judgeHere(plan, event, verdicts);
    if (rest.length === 0) return routesOf(plan, verdicts);
    const sources = rest.map((at) => (plan.filtered[at]!.filter as Filter).source);
    return judgeElsewhere(event, sources).then((judged) => {
      rest.forEach((at, i) => (verdicts[at] = judged[i]!));
      return routesOf(plan, verdicts);
    });
  }

  #planOf(type: string): Plan {
    let plan = this.#plans.get(type);
    if (plan === undefined) {
      plan = this.#makePlan(type);
      const weight = 1 + plan.open.length + plan.filtered.length;
      if (this.#remembered + weight > MAX_REMEMBERED) {
        this.#plans.clear();
        this.#remembered = 0;
      }
      this.#remembered += weight;
      this.#plans.set(type, plan);
    }
    return plan;
  }

  #makePlan(type: string, about?: EndpointId): Plan {
    const matching = this.#subscriptions.filter(
      ({ pattern, endpointId }) =>
        matchesPattern(pattern, type) &&
        (about === undefined || (pattern !== EVERYTHING && endpointId !== about)),
    );
    const openIds = new Set(matching.filter(({ filter }) => filter === null).map((row) => row.endpointId));
    const filtered = matching
      .filter(({ endpointId }) => !openIds.has(endpointId))
      .map(({ endpointId, filter }) => ({ endpointId, filter: compiled(filter!) }));
    return {
      open: Array.from(openIds, (endpointId) => ({ endpointId, filterError: null })),
      filtered,
      index: new EqualityIndex(filtered),
    };
  }
}

/** Judges what is cheap on this event. @returns positions of the others */
function judgeHere(plan: Plan, event: FilteredEvent, verdicts: (Verdict | undefined)[]): number[] {
  if (event.isDearToParse) return plan.filtered.flatMap((entry, at) => judgeUnparsed(entry, at, verdicts));
  const { scope } = event;
  const rest: number[] = [];
  const turnEnds = performance.now() + TURN_MS;
  let isLate = false;
  const candidates = plan.index.candidates(scope.payload);
  for (const [i, at] of candidates.entries()) {
    if (i % LOOK_AFTER === LOOK_AFTER - 1) isLate ||= performance.now() > turnEnds;
    const { filter } = plan.filtered[at]!;
    if ('error' in filter) verdicts[at] = filter;
    else if (!isLate && filter.cheap !== null && isCheapOn(filter.cheap, scope.payload))
      verdicts[at] = judge(filter, scope);
    else rest.push(at);
  }
  return rest;
}

function judgeUnparsed(
  { filter }: FilteredSubscription,
  at: number,
  verdicts: (Verdict | undefined)[],
): number[] {
  if (!('error' in filter)) return [at];
  verdicts[at] = filter;
  return [];
}

function judge(filter: Filter, scope: Parameters<Filter['matches']>[0]): Verdict {
  try {
    return filter.matches(scope);
  } catch (error) {
    if (!(error instanceof ExpressionError)) throw error;
    return { error: error.message };
  }
}

function routesOf(plan: Plan, verdicts: readonly (Verdict | undefined)[]): readonly Route[] {
  const routes = new Map<EndpointId, Route>();
  for (const [at, { endpointId }] of plan.filtered.entries()) {
    const verdict = verdicts[at];
    // Undefined: ruled out by the index.
    if (verdict === false || verdict === undefined) continue;
    if (verdict === true) routes.set(endpointId, { endpointId, filterError: null });
    else if (!routes.has(endpointId))
      routes.set(endpointId, { endpointId, filterError: storable(verdict.error) });
  }
  if (routes.size === 0) return plan.open;
  const matched = [...routes.values()];
  return plan.open.length === 0 ? matched : [...plan.open, ...matched].sort(byEndpoint);
}

function byEndpoint(a: Route, b: Route): number {
  return a.endpointId < b.endpointId ? -1 : 1;
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
    return { error: error.message };
  }
}

const MAX_ERROR_LENGTH = 300;

/** Texts of errors hold pieces of payloads: cut, and without U+0000, which PostgreSQL's text cannot hold. */
function storable(text: string): string {
  return text.slice(0, MAX_ERROR_LENGTH).toWellFormed().replaceAll('\0', '\uFFFD');
}
