import { randomBytes } from 'node:crypto';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import Fastify, {
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyRequest,
  type FastifyReply,
} from 'fastify';
import { JsonError, JsonReader, JsonTooDeepError, MAX_JSON_DEPTH } from '../json/json-reader.ts';
import { LoopTurns } from '../../shared/loop-turns.ts';
import { AllowedMethods } from './allowed-methods.ts';
import { clientAddress, trustedProxies } from './client-address.ts';
import { type CutReason, OpenConnections } from './connections.ts';
import { serveDocumentation } from './documentation.ts';
import { answer, answerClientError, answerError, answerExpectation } from './error-answers.ts';
import {
  bodyMalformed,
  bodyTooDeep,
  contentCodingUnsupported,
  cutText,
  methodNotAllowed,
  requestMalformed,
  routeNotFound,
} from './problem.ts';

export interface HttpServerOptions {
  readonly logger: FastifyBaseLogger;
  /** Bytes of a request's body, where a route does not say otherwise (`bodyLimit`). */
  readonly maxBodyBytes: number;
  readonly limits: HttpLimits;
  /** Of the API: its OpenAPI document and interactive documentation are served. */
  readonly documentation?: { readonly version: string };
  /** Whose X-Forwarded-For counts, as in `http.trustedProxies`. Default: nobody's. */
  readonly trustedProxies?: readonly string[];
  readonly onCut?: (reason: CutReason) => void;
}

/** What connections may cost. docs/configuration.md has each under the same name, after `http.`. */
export interface HttpLimits {
  readonly maxConnections: number;
  readonly maxConnectionsPerAddress: number;
  readonly headersTimeoutMs: number;
  readonly requestTimeoutMs: number;
  readonly keepAliveTimeoutMs: number;
  readonly writeTimeoutMs: number;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Who sent the request, as far as trusted proxies say. `request.ip` is the peer, which may be a proxy. */
    readonly clientAddress: string;
  }
}

const CLOSE_IDLE_EVERY_MS = 20;
const QUIET_MS = 3_000;
/** How often Node looks for requests whose time is up. Its default of 30 s would be added to every time-out. */
const LOOK_FOR_LATE_REQUESTS_MS = 500;

/** A fastify instance with our limits, schemas, errors and documentation; features add their routes to it. */
export async function createHttpServer(options: HttpServerOptions) {
  const { limits } = options;
  const app = Fastify({
    loggerInstance: options.logger,
    // One line an attempt and one an unexpected error are enough; a line a request would be most of the log.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: options.maxBodyBytes,
    requestTimeout: limits.requestTimeoutMs,
    keepAliveTimeout: limits.keepAliveTimeoutMs,
    forceCloseConnections: 'idle',
    // A request that comes on an open connection while we stop is answered as any other, and its connection closed behind it: the
    // acceptor runs until the server has closed. fastify would answer 503 without Retry-After, in a form of its own.
    return503OnClosing: false,
    genReqId: requestIds(),
    routerOptions: { maxParamLength: 256 },
    clientErrorHandler: answerClientError,
    frameworkErrors: answerError,
    http: {
      headersTimeout: Math.min(limits.headersTimeoutMs, limits.requestTimeoutMs),
      connectionsCheckingInterval: LOOK_FOR_LATE_REQUESTS_MS,
      // Answered below, as a problem document.
      requireHostHeader: false,
    },
  }).withTypeProvider<TypeBoxTypeProvider>();

  const validators = { body: schemaValidator(false), other: schemaValidator(true) };
  app.setValidatorCompiler(({ schema, httpPart }) =>
    (httpPart === 'body' ? validators.body : validators.other).compile(schema as object),
  );
  app.server.maxConnections = limits.maxConnections;
  app.server.on('checkExpectation', (_request, response) => answerExpectation(response));
  const allowed = new AllowedMethods(app);
  const isTrusted = trustedProxies(options.trustedProxies ?? []);
  let isWarned = false;
  app.decorateRequest('clientAddress', {
    getter(this: FastifyRequest) {
      const [peer, forwarded] = [this.socket.remoteAddress ?? '', this.headers['x-forwarded-for']];
      if (forwarded !== undefined && !isTrusted(peer) && !isWarned) {
        isWarned = true;
        const text =
          'X-Forwarded-For is ignored: the peer is not in http.trustedProxies. When it is your proxy, name it there';
        this.log.warn({ peer }, text);
      }
      return clientAddress(peer, forwarded, isTrusted);
    },
  });
  app.setErrorHandler<FastifyError>(answerError);
  app.setNotFoundHandler((request, reply) => answerNoRoute(request, reply, allowed));
  app.addHook('onRequest', refuseMalformed);
  const turns = new LoopTurns<string>();
  app.addHook('onSend', (request, reply, payload: unknown, done) => {
    reply.header('x-request-id', request.id);
    reply.header('x-content-type-options', 'nosniff');
    reply.header('x-frame-options', 'DENY');
    if (!isLarge(payload)) return done(null, payload);
    // Handing megabytes to the kernel takes time as well. Clients take turns.
    turns.next(request.clientAddress).then(() => done(null, payload), done);
  });
  // JSON bodies stay bytes until the route asks: payloads are kept exactly as received.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (request, body, done) => {
    try {
      done(null, parseJsonBody(body as Buffer, request.headers['content-encoding']));
    } catch (error) {
      done(error as Error, undefined);
    }
  });
  if (options.documentation) await serveDocumentation(app, options.documentation.version);
  const connections = new OpenConnections(app.server, {
    maxPerAddress: limits.maxConnectionsPerAddress,
    writeTimeoutMs: limits.writeTimeoutMs,
    isProxy: isTrusted,
    onCut: options.onCut ?? (() => undefined),
  });
  return Object.assign(app, { connections });
}

/** Answers that take the kernel a moment to copy. Streams are sent in pieces anyway. */
const LARGE_ANSWER_BYTES = 65_536;

function isLarge(payload: unknown): boolean {
  return (typeof payload === 'string' || Buffer.isBuffer(payload)) && payload.length > LARGE_ANSWER_BYTES;
}

/** RFC 9112, 3.2: a request of HTTP/1.1 names its host. RFC 9110, 10.1.1: what is expected is done or refused. */
function refuseMalformed(request: FastifyRequest, reply: FastifyReply, done: (error?: Error) => void): void {
  const { raw } = request;
  if (raw.headers.host === undefined && raw.httpVersion === '1.1') {
    reply.header('connection', 'close');
    return done(requestMalformed({ detail: 'The Host header is missing.' }));
  }
  done();
}

function answerNoRoute(request: FastifyRequest, reply: FastifyReply, allowed: AllowedMethods): void {
  const allow = allowed.of(request.url);
  const error =
    // The documentation's routes take any path, and answer themselves that there is no such file.
    allow.length === 0 || allow.includes(request.method)
      ? routeNotFound({ detail: 'No such route.' })
      : methodNotAllowed({ detail: `The path takes ${allow.join(', ')}, not ${request.method}.`, allow });
  answer(request, reply, error);
}

/**
 * Closes the server: no new connection, requests in flight are answered, idle keep-alive connections are closed as they become idle.
 * Connections without a request are cut after `quietMs`: until then one may be on its way. At the deadline what is left is cut.
 */
export async function closeHttpServer(
  app: HttpServer,
  deadline: AbortSignal,
  quietMs = QUIET_MS,
): Promise<void> {
  const sweep = setInterval(() => app.server.closeIdleConnections(), CLOSE_IDLE_EVERY_MS);
  const cut = (): void => app.server.closeAllConnections();
  const quiet = setInterval(() => app.connections.cutQuiet(), quietMs);
  deadline.addEventListener('abort', cut, { once: true });
  if (deadline.aborted) cut();
  try {
    await app.close();
  } finally {
    clearInterval(sweep);
    clearInterval(quiet);
    deadline.removeEventListener('abort', cut);
  }
}

/** Unique over processes by a random beginning, and cheap: randomness for each request was 3 % of a busy process. */
function requestIds(): () => string {
  const prefix = randomBytes(6).toString('base64url');
  let count = 0;
  return () => `${prefix}-${(count++).toString(36)}`;
}

export type HttpServer = Awaited<ReturnType<typeof createHttpServer>>;

/**
 * Bodies are strict: a wrong type or an unknown member is refused, nothing is guessed or dropped. Query parameters and headers
 * are text, so there "50" may become 50.
 */
function schemaValidator(coerceTypes: boolean): Ajv {
  const ajv = new Ajv({
    coerceTypes,
    removeAdditional: false,
    useDefaults: true,
    strict: false,
    discriminator: true,
  });
  addFormats.default(ajv);
  return ajv;
}

/**
 * Parses a JSON body. An empty one is undefined, so that routes without a body need no special case.
 * @throws BODY_MALFORMED, BODY_TOO_DEEP, which is found before anything is built; CONTENT_CODING_UNSUPPORTED
 */
export function parseJsonBody(body: Buffer, coding?: string): unknown {
  if (coding !== undefined && coding.trim().toLowerCase() !== 'identity')
    throw contentCodingUnsupported({ detail: `The body came with Content-Encoding: ${cutText(coding)}.` });
  if (body.length === 0) return undefined;
  try {
    new JsonReader(body).readValue();
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch (error) {
    if (error instanceof JsonTooDeepError)
      throw bodyTooDeep({ detail: `At most ${MAX_JSON_DEPTH} levels are read.`, cause: error });
    const reason = error instanceof JsonError ? error.message : (error as Error).message;
    throw bodyMalformed({ detail: `Not valid JSON: ${reason}.`, cause: error });
  }
}
