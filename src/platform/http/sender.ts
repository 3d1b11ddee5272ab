import { Agent } from 'undici';
import type { ResolveName } from '../dns/resolver.ts';
import type { AllowRule } from './address-guard.ts';
import { Exchange, type OutgoingRequest } from './exchange.ts';
import { guardedConnector, type GuardedConnect } from './guarded-connector.ts';
import type { SendOutcome } from './send-outcome.ts';
import { OriginPool, SocketClient } from './socket-client.ts';

export interface SenderOptions {
  readonly allow: readonly AllowRule[];
  readonly connectTimeoutMs: number;
  /** Sockets to one origin at most. */
  readonly socketsPerOrigin: number;
  /** Body bytes read, and body bytes after decompression, at most. */
  readonly maxResponseBytes: number;
  readonly http2: boolean;
  /** Names to addresses. Asked once a connection. */
  readonly resolve: ResolveName;
}

/**
 * How long an idle socket is kept for the next request to the same origin: this long when the receiver says nothing, else as long as it says less the
 * margin, so that it does not close it under a request. Each socket draws its own: those that a burst opened would all close at once, which
 * is work enough for the next burst.
 */
const KEEP_ALIVE_MS: Range = [3_000, 4_000];
const KEEP_ALIVE_MARGIN_MS: Range = [1_000, 2_000];
const MAX_KEEP_ALIVE_MS = 60_000;

type Range = readonly [number, number];

/**
 * Sends requests through one shared pool of keep-alive sockets, to vetted addresses only. Redirects are not followed. An answer from
 * the receiver and every failure are values, never exceptions.
 */
export class HttpSender {
  readonly #agent: Agent;
  readonly #maxResponseBytes: number;
  /** Not a Set: V8 keeps what was in the tables that a Set has outgrown until the next full collection, which is every request and its answer. */
  readonly #open: Exchange[] = [];

  constructor(options: SenderOptions) {
    this.#maxResponseBytes = options.maxResponseBytes;
    const connect = guardedConnector({
      allow: options.allow,
      connectTimeoutMs: options.connectTimeoutMs,
      allowH2: options.http2,
      resolve: options.resolve,
    });
    this.#agent = new Agent({
      connections: options.socketsPerOrigin,
      pipelining: 1,
      keepAliveMaxTimeout: MAX_KEEP_ALIVE_MS,
      factory: (origin, poolOptions) =>
        new OriginPool(origin, {
          ...poolOptions,
          factory: (...client) => newSocketClient(...client, connect),
        }),
      allowH2: options.http2,
      // The deadline of the whole request is ours; undici's own are coarser and would only blur which one fired.
      headersTimeout: 0,
      bodyTimeout: 0,
    });
  }

  send(request: OutgoingRequest): Promise<SendOutcome> {
    return new Promise((resolve) => {
      const url = new URL(request.url);
      const handler = new Exchange(request, this.#maxResponseBytes, (outcome) => {
        this.#forget(handler);
        resolve(outcome);
      });
      handler.place = this.#open.push(handler) - 1;
      try {
        this.#agent.dispatch(
          {
            origin: url.origin,
            path: url.pathname + url.search,
            method: 'POST',
            headers: request.headers,
            body: request.body,
          },
          handler,
        );
      } catch (error) {
        handler.onResponseError(undefined, error as Error);
      }
    });
  }

  /** Ends every request in flight from our side: the outcome of those that were started is not known. */
  abortAll(): void {
    for (const exchange of [...this.#open]) exchange.abort();
  }

  /** The last one takes its place. */
  #forget(exchange: Exchange): void {
    const last = this.#open.pop()!;
    if (last === exchange) return;
    this.#open[exchange.place] = last;
    last.place = exchange.place;
  }

  /** Closes idle sockets and ends what is still open. */
  async close(): Promise<void> {
    this.abortAll();
    await this.#agent.destroy();
  }
}

/** @param options the pool's; each client has one socket */
function newSocketClient(origin: URL, options: object, connect: GuardedConnect): SocketClient {
  const keepAlive = {
    keepAliveTimeout: drawn(KEEP_ALIVE_MS),
    keepAliveTimeoutThreshold: drawn(KEEP_ALIVE_MARGIN_MS),
  };
  return new SocketClient(origin, { ...options, ...keepAlive }, connect);
}

function drawn([least, most]: Range): number {
  return least + Math.random() * (most - least);
}
