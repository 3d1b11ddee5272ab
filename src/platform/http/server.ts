import { randomBytes } from 'node:crypto';
import fastifySwagger from '@fastify/swagger';
import fastifySwaggerUi from '@fastify/swagger-ui';
import type { TypeBoxTypeProvider } from '@fastify/type-provider-typebox';
import { Ajv2020 as Ajv } from 'ajv/dist/2020.js';
import addFormats from 'ajv-formats';
import Fastify, {
  type FastifySchema,
  LogController,
  type FastifyBaseLogger,
  type FastifyError,
  type FastifyReply,
  type FastifyRequest,
} from 'fastify';
import { isTransient, sqlState } from '../db/database.ts';
import { type FieldProblem, RelayError } from '../../shared/errors.ts';
import { clientAddress, trustedProxies } from './client-address.ts';
import { OpenConnections } from './connections.ts';
import {
  bodyMalformed,
  bodyTooLarge,
  internalError,
  mediaTypeUnsupported,
  queryTimeout,
  requestInvalid,
  routeNotFound,
  serviceUnavailable,
  toProblem,
} from './problem.ts';

export interface HttpServerOptions {
  readonly logger: FastifyBaseLogger;
  readonly maxRequestBytes: number;
  readonly requestTimeoutMs: number;
  readonly maxConnections: number;
  /** Whose X-Forwarded-For counts, as in `http.trustedProxies`. Default: nobody's. */
  readonly trustedProxies?: readonly string[];
  readonly version: string;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Who sent the request, as far as trusted proxies say. `request.ip` is the peer, which may be a proxy. */
    readonly clientAddress: string;
  }
}

const RETRY_AFTER_AWAY_S = 2;
const RETRY_AFTER_SLOW_S = 5;
const CLOSE_IDLE_EVERY_MS = 20;
const QUIET_MS = 3_000;
/** A value that PostgreSQL cannot take, which our own checks should have refused: characters, numbers, times. */
const BAD_VALUE = new Set(['22021', '22P02', '22007', '22008', '22009']);
const STATEMENT_TIMEOUT = '57014';

/** A fastify instance with our schemas, errors and documentation; features add their routes to it. */
export async function createHttpServer(options: HttpServerOptions) {
  const app = Fastify({
    loggerInstance: options.logger,
    // One line an attempt and one an unexpected error are enough; a line a request would be most of the log.
    logController: new LogController({ disableRequestLogging: true }),
    bodyLimit: options.maxRequestBytes,
    requestTimeout: options.requestTimeoutMs,
    keepAliveTimeout: 72_000,
    forceCloseConnections: 'idle',
    // A request that comes on an open connection while we stop is answered as any other, and its connection closed behind it: the
    // acceptor runs until the server has closed. fastify would answer 503 without Retry-After, in a form of its own.
    return503OnClosing: false,
    genReqId: requestIds(),
    routerOptions: { maxParamLength: 256 },
  }).withTypeProvider<TypeBoxTypeProvider>();

  const validators = { body: schemaValidator(false), other: schemaValidator(true) };
  app.setValidatorCompiler(({ schema, httpPart }) =>
    (httpPart === 'body' ? validators.body : validators.other).compile(schema as object),
  );
  app.server.maxConnections = options.maxConnections;
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
  app.setNotFoundHandler((request, reply) =>
    answer(request, reply, routeNotFound({ detail: 'No such route.' })),
  );
  app.addHook('onSend', async (request, reply) => {
    reply.header('x-request-id', request.id);
  });
  // JSON bodies stay bytes until the route asks: payloads are kept exactly as received.
  app.removeAllContentTypeParsers();
  app.addContentTypeParser('application/json', { parseAs: 'buffer' }, (_request, body, done) => {
    try {
      done(null, parseJsonBody(body as Buffer));
    } catch (error) {
      done(error as Error, undefined);
    }
  });

  await app.register(fastifySwagger, {
    transform: ({ schema, url, route }) => ({ schema: documented(schema, String(route.method), url), url }),
    openapi: {
      openapi: '3.1.0',
      info: {
        title: 'RelayOps',
        version: options.version,
        description:
          'Takes events in, keeps every one with the work it causes, delivers over HTTP at least once.',
        license: { name: 'Apache-2.0', identifier: 'Apache-2.0' },
      },
      components: {
        securitySchemes: {
          apiKey: {
            type: 'http',
            scheme: 'bearer',
            description: 'An API key (`rok_…`) or an access token from /v1/auth/login.',
          },
        },
      },
      security: [{ apiKey: [] }],
    },
  });
  await app.register(fastifySwaggerUi, { routePrefix: '/docs' });
  app.get('/openapi.json', { schema: { hide: true } }, async () => app.swagger());
  return Object.assign(app, { connections: new OpenConnections(app.server) });
}

const ProblemAnswer = {
  description: 'A problem document (RFC 9457); docs/errors.md lists the codes.',
  content: { 'application/problem+json': { schema: { type: 'object', additionalProperties: true } } },
};

/**
 * What the documentation adds to a route's schema: a stable operation ID, the problem answer that every route has, and that a query
 * parameter with a default need not be sent.
 */
function documented(schema: FastifySchema | undefined, method: string, url: string): FastifySchema {
  if (schema === undefined || schema.hide === true) return schema ?? {};
  const words = url
    .replace(/^\/v1\//, '')
    .split(/[/:{}-]+/)
    .filter((word) => word !== '');
  const operationId =
    method.toLowerCase() + words.map((word) => word[0]!.toUpperCase() + word.slice(1)).join('');
  const query = schema.querystring as
    { properties: Record<string, { default?: unknown }>; required?: string[] } | undefined;
  return {
    operationId,
    ...schema,
    ...(query
      ? {
          querystring: {
            ...query,
            required: (query.required ?? []).filter((name) => query.properties[name]?.default === undefined),
          },
        }
      : {}),
    response: { ...(schema.response as object | undefined), default: ProblemAnswer },
  };
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

/** Parses a JSON body. An empty one is undefined, so that routes without a body need no special case. */
export function parseJsonBody(body: Buffer): unknown {
  if (body.length === 0) return undefined;
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch (error) {
    throw bodyMalformed({ detail: `Not valid JSON: ${(error as Error).message}.`, cause: error });
  }
}

function answerError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  answer(request, reply, toRelayError(error, request));
}

function answer(request: FastifyRequest, reply: FastifyReply, error: RelayError): void {
  const problem = toProblem(error, request.id);
  const { retryAfterSeconds } = error.occurrence;
  if (retryAfterSeconds !== undefined)
    void reply.header('retry-after', String(Math.max(1, Math.ceil(retryAfterSeconds))));
  if (problem.status === 401) void reply.header('www-authenticate', 'Bearer');
  void reply.code(problem.status).type('application/problem+json').send(JSON.stringify(problem));
}

/** Classifies whatever a handler threw. What is not expected is logged with its cause and answered without detail. */
function toRelayError(error: FastifyError, request: FastifyRequest): RelayError {
  if (error instanceof RelayError) {
    if (error.kind === 'internal' || error.kind === 'unavailable')
      request.log.warn({ err: error, code: error.code }, 'request failed');
    return error;
  }
  if (error.validation)
    return requestInvalid({ fields: error.validation.map((v) => fieldProblem(v, error.validationContext)) });
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE':
      return bodyTooLarge();
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
      return mediaTypeUnsupported();
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case 'FST_ERR_BAD_URL':
      return requestInvalid({ detail: error.message, cause: error });
    default:
  }
  return toDatabaseError(error, request);
}

function toDatabaseError(error: FastifyError, request: FastifyRequest): RelayError {
  const state = sqlState(error);
  if (state !== undefined && BAD_VALUE.has(state)) {
    request.log.warn({ err: error }, 'the database refused a value');
    return requestInvalid({ detail: 'A value is not one that can be stored or looked up.', cause: error });
  }
  if (state === STATEMENT_TIMEOUT) {
    request.log.warn({ err: error }, 'statement timed out');
    return queryTimeout({ retryAfterSeconds: RETRY_AFTER_SLOW_S, cause: error });
  }
  if (isTransient(error)) {
    request.log.warn({ err: error }, 'dependency away');
    return serviceUnavailable({
      detail: 'The database does not answer.',
      retryAfterSeconds: RETRY_AFTER_AWAY_S,
      cause: error,
    });
  }
  request.log.error({ err: error }, 'unexpected error');
  return internalError({ cause: error });
}

type Validation = NonNullable<FastifyError['validation']>[number];

function fieldProblem(v: Validation, context: string | undefined): FieldProblem {
  const params = v.params;
  const named = params['additionalProperty'] ?? params['missingProperty'];
  const field = `${context ?? 'body'}${v.instancePath}${typeof named === 'string' ? `/${named}` : ''}`;
  if (v.keyword === 'additionalProperties')
    return { field, reason: 'is not a known field', fix: 'Remove it or correct its name.' };
  if (v.keyword === 'required') return { field, reason: 'is missing', fix: 'Add it.' };
  const allowed = params['allowedValues'];
  return {
    field,
    reason: v.message ?? 'is not valid',
    ...(Array.isArray(allowed) ? { fix: `Use one of ${allowed.join(', ')}.` } : {}),
  };
}
