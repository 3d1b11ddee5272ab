import type { RelayError } from '../../shared/errors.ts';
import { type ErrorKind, type FieldProblem, defineError } from '../../shared/errors.ts';

/** The one place that knows which HTTP status a kind of error has. */
const STATUS_OF_KIND: Readonly<Record<ErrorKind, number>> = {
  invalid: 400,
  unauthenticated: 401,
  forbidden: 403,
  not_found: 404,
  conflict: 409,
  too_large: 413,
  unsupported_media_type: 415,
  rate_limited: 429,
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

export function toProblem(error: RelayError, requestId: string): Problem {
  const { definition, occurrence } = error;
  return {
    ...occurrence.extra,
    type: `https://relayops.dev/errors/${definition.code}`,
    title: definition.title,
    status: statusOfKind(definition.kind),
    code: definition.code,
    detail: occurrence.detail ?? definition.title,
    fix: definition.fix,
    requestId,
    ...(occurrence.fields ? { errors: occurrence.fields } : {}),
  };
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
export const bodyTooLarge = defineError({
  code: 'BODY_TOO_LARGE',
  kind: 'too_large',
  title: 'The request body is too large.',
  fix: 'Send less in one request, or raise ingest.maxRequestBytes.',
});
export const mediaTypeUnsupported = defineError({
  code: 'MEDIA_TYPE_UNSUPPORTED',
  kind: 'unsupported_media_type',
  title: 'This route does not take that content type.',
  fix: 'Use a content type that /openapi.json names for the route.',
});
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
