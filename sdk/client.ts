/**
 * A typed client of RelayOps' HTTP API. Needs `fetch` and nothing else of the platform. What is not a 2xx answer is thrown as a
 * RelayOpsError, so that the answer of a call is always its data.
 */
import createClient, {
  type Client,
  type ClientPathsWithMethod,
  type FetchResponse,
  type MaybeOptionalInit,
} from 'openapi-fetch';
import type { paths } from './openapi.d.ts';

export type { paths } from './openapi.d.ts';

/** One thing that is wrong with one field of a request. */
export interface FieldProblem {
  /** Part of the request and JSON pointer or name in it: `body/url`, `querystring/limit`. */
  readonly field: string;
  readonly reason: string;
  readonly fix?: string;
}

/** An answer that is not 2xx. docs/errors.md lists the codes; those of answers that are not RelayOps' own are `HTTP_<status>`. */
export class RelayOpsError extends Error {
  readonly code: string;
  readonly status: number;
  /** What the caller can do about it. */
  readonly fix: string | undefined;
  /** Empty unless single fields are at fault. */
  readonly fields: readonly FieldProblem[];
  /** Names the request in RelayOps' log. */
  readonly requestId: string | undefined;
  /** `Retry-After` in seconds, when there is one: send the same request again then. */
  readonly retryAfterSeconds: number | undefined;
  /** The whole problem document, with members that only this code has, such as `originalEventId`. */
  readonly problem: Readonly<Record<string, unknown>>;

  constructor(response: Response, problem: Readonly<Record<string, unknown>>) {
    super(textOf(problem['detail']) ?? `${response.url} answered ${response.status}`);
    this.name = 'RelayOpsError';
    this.code = textOf(problem['code']) ?? `HTTP_${response.status}`;
    this.status = response.status;
    this.fix = textOf(problem['fix']);
    this.fields = Array.isArray(problem['errors']) ? (problem['errors'] as FieldProblem[]) : [];
    this.requestId = textOf(problem['requestId']) ?? response.headers.get('x-request-id') ?? undefined;
    this.retryAfterSeconds = secondsOf(response.headers.get('retry-after'));
    this.problem = problem;
  }
}

type Method = 'get' | 'post' | 'patch' | 'delete';
type PathsWith<M extends Method> = ClientPathsWithMethod<Client<paths>, M> & keyof paths;
type InitOf<P extends keyof paths, M extends Method> = MaybeOptionalInit<paths[P], M & keyof paths[P]>;
type Operation<P extends keyof paths, M extends Method> = Extract<
  paths[P][M & keyof paths[P]],
  Record<string | number, unknown>
>;

/** A successful answer. */
export interface Answer<Data> {
  /** Undefined for an answer without a body (204). */
  readonly data: Data;
  readonly response: Response;
}

type DataOf<O extends Record<string | number, unknown>, Init> = Exclude<
  FetchResponse<O, Init, 'application/json'>,
  { data?: never }
>['data'];

type Call<M extends Method> = <P extends PathsWith<M>, Init extends InitOf<P, M>>(
  path: P,
  ...init: undefined extends InitOf<P, M> ? [init?: Init] : [init: Init]
) => Promise<Answer<DataOf<Operation<P, M>, Init>>>;

/** Every route of the API by method and path, with its parameters, body and answer as types. */
export interface RelayOpsClient {
  readonly GET: Call<'get'>;
  readonly POST: Call<'post'>;
  readonly PATCH: Call<'patch'>;
  readonly DELETE: Call<'delete'>;
}

export interface RelayOpsClientOptions {
  /** Where RelayOps listens, e.g. `https://relay.example.com`. */
  readonly baseUrl: string;
  /** An API key (`rok_…`) or an access token. */
  readonly apiKey: string;
  /** Instead of the platform's fetch: for tests, proxies, retries. */
  readonly fetch?: (request: Request) => Promise<Response>;
}

/**
 * @example
 * const relay = createRelayOpsClient({ baseUrl: 'http://127.0.0.1:8080', apiKey });
 * const { data } = await relay.POST('/v1/events', {
 *   body: { type: 'order.paid', payload: { order: 1 }, idempotencyKey: 'order-1-paid' },
 * });
 */
export function createRelayOpsClient({ baseUrl, apiKey, fetch }: RelayOpsClientOptions): RelayOpsClient {
  const client = createClient<paths>({
    baseUrl,
    headers: { authorization: `Bearer ${apiKey}` },
    ...(fetch ? { fetch } : {}),
  });
  client.use({
    onResponse: async ({ response }) => {
      if (!response.ok) throw new RelayOpsError(response, await problemOf(response));
    },
  });
  // openapi-fetch types an answer as data or error; what would be an error is thrown above.
  return client as unknown as RelayOpsClient;
}

async function problemOf(response: Response): Promise<Record<string, unknown>> {
  const text = await response.text();
  try {
    const problem: unknown = JSON.parse(text);
    return typeof problem === 'object' && problem !== null ? (problem as Record<string, unknown>) : {};
  } catch {
    // A proxy's page, for example: its status is all there is to say.
    return {};
  }
}

function textOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined;
}

function secondsOf(retryAfter: string | null): number | undefined {
  return retryAfter !== null && /^\d{1,9}$/.test(retryAfter) ? Number(retryAfter) : undefined;
}
