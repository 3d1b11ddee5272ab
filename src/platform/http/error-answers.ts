import { type ServerResponse, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import type { FastifyError, FastifyReply, FastifyRequest } from 'fastify';
import { isTransient, sqlState } from '../db/database.ts';
import { type FieldProblem, RelayError } from '../../shared/errors.ts';
import {
  bodyTooLarge,
  describeMediaType,
  expectationFailed,
  headersTooLarge,
  internalError,
  mediaTypeUnsupported,
  queryTimeout,
  requestInvalid,
  requestMalformed,
  requestTimeout,
  routeNotFound,
  serviceUnavailable,
  toProblem,
} from './problem.ts';

const RETRY_AFTER_AWAY_S = 2;
const RETRY_AFTER_SLOW_S = 5;
/** A value that PostgreSQL cannot take, which our own checks should have refused: characters, numbers, times. */
const BAD_VALUE = new Set(['22021', '22P02', '22007', '22008', '22009']);
const STATEMENT_TIMEOUT = '57014';
const PROBLEM_TYPE = 'application/problem+json';

/** What a handler or fastify itself threw, as a problem document. */
export function answerError(error: FastifyError, request: FastifyRequest, reply: FastifyReply): void {
  answer(request, reply, toRelayError(error, request));
}

export function answer(request: FastifyRequest, reply: FastifyReply, error: RelayError): void {
  const problem = toProblem(error, request.id);
  const { retryAfterSeconds, allow } = error.occurrence;
  if (retryAfterSeconds !== undefined)
    void reply.header('retry-after', String(Math.max(1, Math.ceil(retryAfterSeconds))));
  if (allow !== undefined) void reply.header('allow', allow.join(', '));
  if (problem.status === 401) void reply.header('www-authenticate', 'Bearer');
  void reply.code(problem.status).type(PROBLEM_TYPE).send(JSON.stringify(problem));
}

/** What is no HTTP request, or did not become one in time, is answered on the bare socket. There is no request ID yet. */
export function answerClientError(error: NodeJS.ErrnoException, socket: Duplex): void {
  if (error.code === 'ECONNRESET' || socket.destroyed) return;
  if (socket.writable) {
    const problem = toProblem(refusalOf(error), '');
    const body = JSON.stringify(problem);
    const head = [
      `HTTP/1.1 ${problem.status} ${STATUS_CODES[problem.status]}`,
      `content-type: ${PROBLEM_TYPE}`,
      `content-length: ${Buffer.byteLength(body)}`,
      'connection: close',
    ];
    socket.write(`${head.join('\r\n')}\r\n\r\n${body}`);
  }
  socket.destroy();
}

/** RFC 9110, 10.1.1: only 100-continue is known. */
export function answerExpectation(response: ServerResponse): void {
  const problem = toProblem(expectationFailed(), '');
  const body = JSON.stringify(problem);
  const length = Buffer.byteLength(body);
  response
    .writeHead(problem.status, {
      'content-type': PROBLEM_TYPE,
      'content-length': length,
      connection: 'close',
    })
    .end(body);
}

function refusalOf(error: NodeJS.ErrnoException): RelayError {
  if (error.code === 'ERR_HTTP_REQUEST_TIMEOUT') return requestTimeout();
  if (error.code === 'HPE_HEADER_OVERFLOW') return headersTooLarge();
  return requestMalformed({ detail: `The request cannot be read: ${error.code ?? error.message}.` });
}

/** Classifies whatever was thrown. What is not expected is logged with its cause and answered without detail. */
function toRelayError(error: FastifyError, request: FastifyRequest): RelayError {
  if (error instanceof RelayError) {
    if (error.kind === 'internal' || error.kind === 'unavailable')
      request.log.warn({ err: error, code: error.code }, 'request failed');
    return error;
  }
  if (error.validation)
    return requestInvalid({ fields: error.validation.map((v) => fieldProblem(v, error.validationContext)) });
  switch (error.code) {
    case 'FST_ERR_CTP_BODY_TOO_LARGE': {
      const limit = request.routeOptions.bodyLimit;
      return bodyTooLarge({
        detail: `The body has more than ${limit} bytes, which is the limit of this route.`,
      });
    }
    case 'FST_ERR_CTP_INVALID_MEDIA_TYPE':
    case 'FST_ERR_CTP_INVALID_TYPE':
    case 'FST_ERR_CTP_EMPTY_TYPE':
      return mediaTypeUnsupported({ detail: describeMediaType(request.headers['content-type']) });
    case 'FST_ERR_CTP_INVALID_CONTENT_LENGTH':
    case 'FST_ERR_BAD_URL':
    case 'FST_ERR_MAX_PARAM_LENGTH':
      return requestInvalid({ detail: 'The path or the length of the body is not valid.', cause: error });
    default:
  }
  return toStaticFileError(error) ?? toDatabaseError(error, request);
}

/** Documentation files: a path that the file server refuses is the client's mistake. */
function toStaticFileError(error: FastifyError): RelayError | undefined {
  const { statusCode } = error;
  if (statusCode === undefined || statusCode < 400 || statusCode >= 500) return undefined;
  return statusCode === 403 || statusCode === 404
    ? routeNotFound({ cause: error })
    : requestInvalid({ detail: 'The request cannot be served as it is.', cause: error });
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
