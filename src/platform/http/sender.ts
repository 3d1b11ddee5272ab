import type { Transform } from 'node:stream';
import { constants, createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';
import { Agent, Client, type Dispatcher, Pool } from 'undici';
import type { AllowRule } from './address-guard.ts';
import { AddressRefusedError, guardedConnector } from './guarded-connector.ts';

export interface SenderOptions {
  readonly allow: readonly AllowRule[];
  readonly connectTimeoutMs: number;
  /** Sockets to one origin at most. */
  readonly socketsPerOrigin: number;
  /** Body bytes read, and body bytes after decompression, at most. */
  readonly maxResponseBytes: number;
  readonly http2: boolean;
}

export interface OutgoingRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Covers connect, headers and body together. */
  readonly timeoutMs: number;
}

/** Why there is no response. After `aborted` the receiver may have the request: we ended it ourselves. */
export type SendFailureCode =
  | 'timeout'
  | 'connect_timeout'
  | 'connection_refused'
  | 'connection_reset'
  | 'dns'
  | 'tls'
  | 'protocol'
  | 'address_refused'
  | 'request_invalid'
  | 'aborted';

export type SendOutcome =
  | {
      readonly kind: 'response';
      readonly status: number;
      readonly headers: Readonly<Record<string, string>>;
      /** Decompressed, cut at the limit. */
      readonly body: Buffer;
      readonly truncated: boolean;
    }
  | { readonly kind: 'failure'; readonly code: SendFailureCode; readonly detail: string };

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
    this.#agent = new Agent({
      connections: options.socketsPerOrigin,
      pipelining: 1,
      keepAliveMaxTimeout: MAX_KEEP_ALIVE_MS,
      factory: (origin, poolOptions) => new Pool(origin, { ...poolOptions, factory: newSocketClient }),
      allowH2: options.http2,
      // The deadline of the whole request is ours; undici's own are coarser and would only blur which one fired.
      headersTimeout: 0,
      bodyTimeout: 0,
      connect: guardedConnector({
        allow: options.allow,
        connectTimeoutMs: options.connectTimeoutMs,
        allowH2: options.http2,
      }),
    });
  }

  send(request: OutgoingRequest): Promise<SendOutcome> {
    return new Promise((resolve) => {
      const url = new URL(request.url);
      const handler = new Exchange(request.timeoutMs, this.#maxResponseBytes, (outcome) => {
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

  /** Ends every request in flight from our side: their outcome is not known. */
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
function newSocketClient(origin: URL, options: object): Client {
  return new Client(origin, {
    ...options,
    keepAliveTimeout: drawn(KEEP_ALIVE_MS),
    keepAliveTimeoutThreshold: drawn(KEEP_ALIVE_MARGIN_MS),
  });
}

function drawn([least, most]: Range): number {
  return least + Math.random() * (most - least);
}

/** One request and its answer: collects a bounded body under one deadline, and reports exactly once. */
class Exchange implements Dispatcher.DispatchHandler {
  /** Its index among those that are open. */
  place = -1;
  readonly #limit: number;
  readonly #report: (outcome: SendOutcome) => void;
  readonly #timer: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #done = false;
  #status = 0;
  #headers: Readonly<Record<string, string>> = {};
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor(timeoutMs: number, limit: number, report: (outcome: SendOutcome) => void) {
    this.#limit = limit;
    this.#report = report;
    this.#timer = setTimeout(() => this.#end(timeoutOutcome(timeoutMs, this.#status)), timeoutMs);
  }

  abort(): void {
    this.#end(abortedOutcome);
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    // It waited in the pool's queue beyond its deadline: nothing may be sent any more.
    if (this.#done) controller.abort(new Error('ended before it started'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = flatten(headers);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done) return;
    this.#bytes += chunk.length;
    this.#chunks.push(chunk);
    if (this.#bytes > this.#limit) void this.#answer(true);
  }

  onResponseEnd(): void {
    void this.#answer(false);
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#end(failureOf(error));
  }

  async #answer(truncated: boolean): Promise<void> {
    if (this.#done) return;
    this.#settle();
    if (truncated) this.#controller?.abort(new Error('response body over the limit'));
    const raw = Buffer.concat(this.#chunks);
    const decoded = await decompress(this.#headers['content-encoding'], raw, this.#limit);
    this.#report({
      kind: 'response',
      status: this.#status,
      headers: this.#headers,
      body: decoded.body.subarray(0, this.#limit),
      truncated: truncated || decoded.truncated,
    });
  }

  #end(outcome: SendOutcome): void {
    if (this.#done) return;
    this.#settle();
    this.#report(outcome);
    this.#controller?.abort(new Error(outcome.kind));
  }

  #settle(): void {
    this.#done = true;
    clearTimeout(this.#timer);
  }
}

const abortedOutcome: SendOutcome = {
  kind: 'failure',
  code: 'aborted',
  detail:
    'The request was ended from our side while it was in flight; whether the receiver has it is not known.',
};

function timeoutOutcome(timeoutMs: number, status: number): SendOutcome {
  const reached = status === 0 ? 'no response headers' : `status ${status}, but the body did not end`;
  return { kind: 'failure', code: 'timeout', detail: `Deadline of ${timeoutMs} ms passed: ${reached}.` };
}

function flatten(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return flat;
}

/** The first `limit` bytes of the decompressed body. What cannot be decompressed counts as cut off, it is only a response. */
async function decompress(
  encoding: string | undefined,
  raw: Buffer,
  limit: number,
): Promise<{ body: Buffer; truncated: boolean }> {
  const decoder =
    encoding === undefined || raw.length === 0 ? undefined : decoderFor(encoding.trim().toLowerCase());
  if (decoder === undefined) return { body: raw, truncated: false };
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    decoder.end(raw);
    for await (const chunk of decoder as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      // Leaving the loop destroys the stream: a bomb costs one chunk more than the limit.
      if (bytes > limit) break;
    }
    return { body: Buffer.concat(chunks), truncated: bytes > limit };
  } catch {
    // Malformed or cut compressed data: a fact about the receiver's answer, shown as truncated.
    return { body: Buffer.concat(chunks), truncated: true };
  }
}

function decoderFor(encoding: string): Transform | undefined {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip({ finishFlush: constants.Z_SYNC_FLUSH });
    case 'deflate':
      return createInflate({ finishFlush: constants.Z_SYNC_FLUSH });
    case 'br':
      return createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH });
    default:
      return undefined;
  }
}

const CODES: Readonly<Record<string, SendFailureCode>> = {
  UND_ERR_CONNECT_TIMEOUT: 'connect_timeout',
  UND_ERR_HEADERS_TIMEOUT: 'timeout',
  UND_ERR_BODY_TIMEOUT: 'timeout',
  UND_ERR_SOCKET: 'connection_reset',
  UND_ERR_CLOSED: 'aborted',
  UND_ERR_DESTROYED: 'aborted',
  UND_ERR_INVALID_ARG: 'request_invalid',
  ECONNREFUSED: 'connection_refused',
  ECONNRESET: 'connection_reset',
  EPIPE: 'connection_reset',
  ETIMEDOUT: 'connect_timeout',
  EHOSTUNREACH: 'connection_refused',
  ENETUNREACH: 'connection_refused',
  EADDRNOTAVAIL: 'connection_refused',
  ENOTFOUND: 'dns',
  EAI_AGAIN: 'dns',
  EAI_FAIL: 'dns',
};

/** Every failure has a class; one that nobody knows yet counts as a broken connection, which is retried. */
function failureOf(error: Error): SendOutcome {
  if (error instanceof AddressRefusedError) {
    return {
      kind: 'failure',
      code: 'address_refused',
      detail: 'The host resolves to an address that is not allowed.',
    };
  }
  const code = codeOf(error);
  const known =
    CODES[code] ??
    (/^(ERR_TLS|ERR_SSL|CERT_|DEPTH_ZERO|SELF_SIGNED|UNABLE_TO_)|EPROTO/.test(code) ? 'tls' : undefined);
  return { kind: 'failure', code: known ?? 'protocol', detail: `${code}: ${error.message}`.slice(0, 300) };
}

function codeOf(error: Error): string {
  const own = (error as { code?: unknown }).code;
  if (typeof own === 'string') return own;
  // Several addresses were tried: the first failure stands for all.
  if (error instanceof AggregateError && error.errors[0] instanceof Error) return codeOf(error.errors[0]);
  return error.cause instanceof Error ? codeOf(error.cause) : error.name;
}
