import { isUtf8 } from 'node:buffer';
import { isEventType, MAX_EVENT_TYPE_LENGTH } from '../endpoints/index.ts';
import { bodyMalformed } from '../platform/http/problem.ts';
import type { FieldProblem } from '../shared/errors.ts';
import type { TenantId } from '../shared/ids.ts';
import { parseMoment } from '../shared/moment.ts';
import { eventInvalid, payloadTooLarge } from './events.errors.ts';
import type { IncomingEvent } from './incoming.ts';
import { objectMembers, type Slice } from './json-slices.ts';

export const MAX_IDEMPOTENCY_KEY_LENGTH = 512;
const KNOWN = new Set(['type', 'payload', 'idempotencyKey', 'occurredAt']);

/** What the request adds to an event's own fields. */
export interface RequestContext {
  readonly tenantId: TenantId;
  readonly maxPayloadBytes: number;
  /** From the Idempotency-Key header; a field in the event must not contradict it. */
  readonly idempotencyKey: string | null;
  readonly traceparent: string | null;
}

/** Parses a JSON body and refuses what is not UTF-8: its bytes could not be delivered as they came. @throws BODY_MALFORMED */
export function parseJson(body: Buffer): unknown {
  if (!isUtf8(body)) throw bodyMalformed({ detail: 'The body is not valid UTF-8.' });
  try {
    return JSON.parse(body.toString('utf8')) as unknown;
  } catch (error) {
    throw bodyMalformed({ detail: `Not valid JSON: ${(error as Error).message}`, cause: error });
  }
}

/**
 * An event in the native form, `{ type, payload, idempotencyKey?, occurredAt? }`.
 * @param value the parsed object, and `text`/`at` the bytes it was parsed from, out of which the payload is cut
 * @throws EVENT_INVALID naming every wrong field, PAYLOAD_TOO_LARGE
 */
export function nativeEvent(
  value: unknown,
  text: Buffer,
  at: number,
  context: RequestContext,
): IncomingEvent {
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw eventInvalid({
      fields: [{ field: 'body', reason: 'is not an object', fix: 'Send {"type": …, "payload": …}.' }],
    });
  }
  const fields = value as Record<string, unknown>;
  const members = objectMembers(text, at);
  const problems = fieldProblems(fields, members.get('payload'), context);
  if (problems.length > 0)
    throw eventInvalid({
      detail: problems.map((p) => `${p.field} ${p.reason}`).join('; ') + '.',
      fields: problems,
    });
  const { start, end } = members.get('payload')!;
  checkSize(end - start, context.maxPayloadBytes);
  return {
    tenantId: context.tenantId,
    type: fields['type'] as string,
    contentType: 'application/json',
    // A copy when the body holds more than this payload, so that a batch's buffer is not kept alive by one of its events.
    payload: Buffer.from(text.subarray(start, end)),
    idempotencyKey: (fields['idempotencyKey'] as string | undefined) ?? context.idempotencyKey,
    format: 'native',
    attributes: null,
    traceparent: context.traceparent,
    occurredAt: typeof fields['occurredAt'] === 'string' ? new Date(fields['occurredAt']) : null,
  };
}

/** @throws PAYLOAD_TOO_LARGE */
export function checkSize(bytes: number, maxBytes: number): void {
  if (bytes > maxBytes)
    throw payloadTooLarge({ detail: `The payload has ${bytes} bytes; at most ${maxBytes} are allowed.` });
}

function fieldProblems(
  fields: Record<string, unknown>,
  payload: Slice | undefined,
  context: RequestContext,
): FieldProblem[] {
  const problems: FieldProblem[] = [];
  for (const name of Object.keys(fields)) {
    if (!KNOWN.has(name))
      problems.push({
        field: name,
        reason: 'is not a known field',
        fix: 'Put your own data into "payload".',
      });
  }
  const type = typeProblem(fields['type']);
  if (type) problems.push(type);
  if (payload === undefined)
    problems.push({ field: 'payload', reason: 'is missing', fix: 'Add it; null is allowed.' });
  const key = keyProblem(fields['idempotencyKey'], context.idempotencyKey);
  if (key) problems.push(key);
  const occurredAt = fields['occurredAt'];
  if (occurredAt !== undefined && !isTimestamp(occurredAt)) {
    problems.push({
      field: 'occurredAt',
      reason: 'is not an RFC 3339 time',
      fix: 'Send for example 2026-01-31T12:00:00Z.',
    });
  }
  return problems;
}

export function typeProblem(type: unknown): FieldProblem | null {
  if (type === undefined)
    return { field: 'type', reason: 'is missing', fix: 'Add it, for example "order.paid".' };
  if (typeof type === 'string' && isEventType(type)) return null;
  return {
    field: 'type',
    reason: `is not an event type (names of letters, digits and _, joined by . - / : or @, at most ${MAX_EVENT_TYPE_LENGTH} characters)`,
    fix: 'Send for example "order.paid".',
  };
}

function keyProblem(key: unknown, fromHeader: string | null): FieldProblem | null {
  if (key === undefined) return null;
  const problem = typeof key === 'string' ? idempotencyKeyProblem(key) : 'is not a string';
  if (problem !== null)
    return { field: 'idempotencyKey', reason: problem, fix: 'Send a short unique text, such as a UUID.' };
  if (fromHeader !== null && fromHeader !== key) {
    return {
      field: 'idempotencyKey',
      reason: 'differs from the Idempotency-Key header',
      fix: 'Send one of the two.',
    };
  }
  return null;
}

/** Why a text cannot be an idempotency key, or null. */
export function idempotencyKeyProblem(key: string): string | null {
  if (key.length === 0 || key.length > MAX_IDEMPOTENCY_KEY_LENGTH)
    return `has not between 1 and ${MAX_IDEMPOTENCY_KEY_LENGTH} characters`;
  // PostgreSQL would keep another text, which the repeat does not find again.
  if (!key.isWellFormed()) return 'holds half of a surrogate pair';
  // eslint-disable-next-line no-control-regex -- control characters are what is looked for
  return /[\u0000-\u001f\u007f]/.test(key) ? 'holds a control character' : null;
}

/** RFC 3339, section 5.6, with a real date in it. */
export function isTimestamp(value: unknown): value is string {
  return typeof value === 'string' && parseMoment(value) !== null;
}
