import type { RelayError } from '../../shared/errors.ts';
import { type ErrorKind, type FieldProblem, defineError } from '../../shared/errors.ts';

/** The one place that knows which HTTP status a kind of error has. */
const STATUS_OF_KIND: Readonly<Record<ErrorKind, number>> = {
  invalid: 400,
  timeout: 408,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  method_not_allowed: 405,
  conflict: 409,
  too_large: 413,
  unsupported_media_type: 415,
  expectation_failed: 417,
  rate_limited: 429,
  headers_too_large: 431,
  unavailable: 503,
  internal: 500,
};

export function statusOfKind(kind: ErrorKind): number {
  return STATUS_OF_KIND[kind];
}

/** RFC 9457 problem document with our members. */
export interface Problem {
  readonly type: string;
  readonly title: string;
  readonly status: number;
  readonly code: string;
  readonly detail: string;
  readonly fix: string;
  readonly requestId: string;
  readonly errors?: readonly FieldProblem[];
  readonly [member: string]: unknown;
}

/** Errors that one problem document lists. It says how many more there are. */
export const MAX_LISTED_PROBLEMS = 20;
const MAX_NAME_LENGTH = 100;
const MAX_TEXT_LENGTH = 500;

/** What a problem document repeats of a request, cut to a length that a reader needs. */
export function cutText(text: string, maxLength = MAX_NAME_LENGTH): string {
  return text.length <= maxLength ? text : `${text.slice(0, maxLength - 1).toWellFormed()}…`;
}

/**
 * The answer that describes an error. Whatever the request held, it is small: names and texts are cut, and
 * `maxErrors` of them are listed.
 */
export function toProblem(error: RelayError, requestId: string, maxErrors = MAX_LISTED_PROBLEMS): Problem {
  const { definition, occurrence } = error;
  return {
    ...occurrence.extra,
    type: `https://relayops.dev/errors/${definition.code}`,
    title: definition.title,
    status: statusOfKind(definition.kind),
    code: definition.code,
    detail: cutText(occurrence.detail ?? definition.title, MAX_TEXT_LENGTH),
    fix: definition.fix,
    requestId,
    ...(occurrence.fields ? { errors: listedProblems(occurrence.fields, maxErrors) } : {}),
  };
}

function listedProblems(fields: readonly FieldProblem[], maxErrors: number): FieldProblem[] {
  const listed = fields.slice(0, maxErrors).map(({ field, reason, fix }) => ({
    field: cutText(field),
    reason: cutText(reason, MAX_TEXT_LENGTH),
    ...(fix === undefined ? {} : { fix: cutText(fix, MAX_TEXT_LENGTH) }),
  }));
  const more = fields.length - listed.length;
  return more === 0 ? listed : [...listed, { field: '…', reason: `and ${more} more` }];
}

export const requestInvalid = defineError({
  code: 'REQUEST_INVALID',
  kind: 'invalid',
  title: 'The request does not fit its schema.',
  fix: 'Correct the fields listed under "errors"; /openapi.json has the schema.',
});
export const bodyMalformed = defineError({
  code: 'BODY_MALFORMED',
  kind: 'invalid',
  title: 'The request body is not valid JSON.',
  fix: 'Send one JSON document in UTF-8.',
});
export const bodyTooDeep = defineError({
  code: 'BODY_TOO_DEEP',
  kind: 'too_large',
  title: 'The request body is nested too deep.',
  fix: 'Send fewer levels of arrays and objects inside each other.',
});
export const bodyTooLarge = defineError({
  code: 'BODY_TOO_LARGE',
  kind: 'too_large',
  title: 'The request body is too large.',
  fix: 'Send less in one request; the detail names the limit.',
});
export const mediaTypeUnsupported = defineError({
  code: 'MEDIA_TYPE_UNSUPPORTED',
  kind: 'unsupported_media_type',
  title: 'This route does not take that content type.',
  fix: 'Use a content type that /openapi.json names for the route.',
});
export const contentCodingUnsupported = defineError({
  code: 'CONTENT_CODING_UNSUPPORTED',
  kind: 'unsupported_media_type',
  title: 'The request body is compressed in a way that this route does not decode.',
  fix: 'Send the body without Content-Encoding; routes that take events decode gzip as well.',
});
export const contentCodingInvalid = defineError({
  code: 'CONTENT_CODING_INVALID',
  kind: 'invalid',
  title: 'The request body is not what its Content-Encoding says.',
  fix: 'Send one complete gzip stream, or leave Content-Encoding out.',
});
export const methodNotAllowed = defineError({
  code: 'METHOD_NOT_ALLOWED',
  kind: 'method_not_allowed',
  title: 'This path does not take that method.',
  fix: 'Use a method that the Allow header names.',
});
export const headersTooLarge = defineError({
  code: 'HEADERS_TOO_LARGE',
  kind: 'headers_too_large',
  title: 'The request line and headers are too large.',
  fix: 'Send at most 16 KiB of them.',
});
export const requestMalformed = defineError({
  code: 'REQUEST_MALFORMED',
  kind: 'invalid',
  title: 'This is not a valid HTTP request.',
  fix: 'Send HTTP/1.1 (RFC 9112) with a Host header.',
});
export const requestTimeout = defineError({
  code: 'REQUEST_TIMEOUT',
  kind: 'timeout',
  title: 'The request did not arrive in time.',
  fix: 'Send it without pauses; docs/configuration.md has the limits (http.headersTimeoutMs, http.requestTimeoutMs).',
});
export const expectationFailed = defineError({
  code: 'EXPECTATION_FAILED',
  kind: 'expectation_failed',
  title: 'The Expect header asks for something that is not offered.',
  fix: 'Leave the header out, or send 100-continue.',
});
/** What came where a content type was expected, as a sentence. */
export function describeMediaType(mediaType: string | undefined): string {
  return mediaType ? `The body came as ${cutText(mediaType)}.` : 'The body came without a Content-Type.';
}

export const routeNotFound = defineError({
  code: 'NOT_FOUND',
  kind: 'not_found',
  title: 'There is nothing here.',
  fix: 'Check the path, the ID and the credential: what belongs to another tenant looks the same as what does not exist.',
});
export const serviceUnavailable = defineError({
  code: 'UNAVAILABLE',
  kind: 'unavailable',
  title: 'A part that this needs is away or overloaded.',
  fix: 'Nothing was stored. Send the same request again after the time in Retry-After.',
});
export const queryTimeout = defineError({
  code: 'QUERY_TIMEOUT',
  kind: 'unavailable',
  title: 'The database did not find the answer within its time limit.',
  fix: 'Narrow the filter, for example by from and to, or ask again after the time in Retry-After.',
});
export const internalError = defineError({
  code: 'INTERNAL',
  kind: 'internal',
  title: 'Something went wrong on our side.',
  fix: 'Try again; when it stays, look up the request ID in the log.',
});
