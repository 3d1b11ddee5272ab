import { isEventType, MAX_EVENT_TYPE_LENGTH } from '../endpoints/index.ts';
import { type JsonReader, JsonTooLongError, type Slice } from '../platform/json/json-reader.ts';
import { cutText, MAX_LISTED_PROBLEMS } from '../platform/http/problem.ts';
import type { FieldProblem } from '../shared/errors.ts';
import type { TenantId } from '../shared/ids.ts';
import { parseMoment } from '../shared/moment.ts';
import { eventInvalid, payloadTooLarge } from './events.errors.ts';
import type { IncomingEvent } from './incoming.ts';

export const MAX_IDEMPOTENCY_KEY_LENGTH = 512;

/** Types of operational events: who receives one may trust that it is ours. */
const RESERVED = /^(endpoint|delivery)\./;

/** What an event may have besides its payload: type, key, time and white space, in bytes. */
export const MAX_ENVELOPE_BYTES = 65_536;

/** Longest value of a field other than the payload, in bytes: a key of 512 characters, all written as escapes. */
const MAX_FIELD_BYTES = 8_192;

/** What the request adds to an event's own fields. */
export interface RequestContext {
  readonly tenantId: TenantId;
  readonly maxPayloadBytes: number;
  /** From the Idempotency-Key header; a field in the event must not contradict it. */
  readonly idempotencyKey: string | null;
  readonly traceparent: string | null;
  /** Resolves when this request may hold the event loop again. */
  readonly turn: () => Promise<void>;
}

/** The fields of a native event as they were found. Of a repeated name the last counts, as with JSON.parse. */
interface Envelope {
  type?: unknown;
  idempotencyKey?: unknown;
  occurredAt?: unknown;
  payload?: Slice;
  /** Of unknown names the first few are kept. */
  readonly unknown: string[];
}

/**
 * An event in the native form, `{ type, payload, idempotencyKey?, occurredAt? }`. The payload's bytes are copied out of
 * `text` as they are; no value of it is built.
 * @param reader stands at the event, in `text`
 * @throws EVENT_INVALID naming every wrong field, PAYLOAD_TOO_LARGE, and what the reader throws
 */
export async function nativeEvent(
  reader: JsonReader,
  text: Buffer,
  context: RequestContext,
): Promise<IncomingEvent> {
  if (reader.peek() !== '{') {
    await reader.readInTurns(context.maxPayloadBytes + MAX_ENVELOPE_BYTES, context.turn);
    throw eventInvalid({
      fields: [{ field: 'body', reason: 'is not an object', fix: 'Send {"type": …, "payload": …}.' }],
    });
  }
  const envelope = await readEnvelope(reader, text, context);
  const problems = fieldProblems(envelope, context);
  if (problems.length > 0)
    throw eventInvalid({
      detail: problems.map((p) => `${p.field} ${p.reason}`).join('; ') + '.',
      fields: problems,
    });
  const { start, end } = envelope.payload!;
  return {
    tenantId: context.tenantId,
    type: envelope.type as string,
    contentType: 'application/json',
    // A copy, so that a batch's buffer is not kept alive by one of its events.
    payload: Buffer.from(text.subarray(start, end)),
    idempotencyKey: (envelope.idempotencyKey as string | undefined) ?? context.idempotencyKey,
    format: 'native',
    attributes: null,
    traceparent: context.traceparent,
    occurredAt: typeof envelope.occurredAt === 'string' ? new Date(envelope.occurredAt) : null,
  };
}

/** @throws PAYLOAD_TOO_LARGE, EVENT_INVALID when there is no end of unknown fields, and what the reader throws */
async function readEnvelope(reader: JsonReader, text: Buffer, context: RequestContext): Promise<Envelope> {
  const { maxPayloadBytes } = context;
  const envelope: Envelope = { unknown: [] };
  const maxBytes = maxPayloadBytes + MAX_ENVELOPE_BYTES;
  const start = reader.at;
  for (let more = reader.enterObject(); more; more = reader.nextMember()) {
    const field = memberName(text, reader.readName());
    const isPayload = field === 'payload';
    const value = await readField(reader, isPayload ? maxPayloadBytes : maxBytes, context);
    if (isPayload) envelope.payload = value;
    else if (field === 'type' || field === 'idempotencyKey' || field === 'occurredAt')
      envelope[field] = smallValue(text, value);
    else if (envelope.unknown.push(field) > MAX_LISTED_PROBLEMS)
      throw eventInvalid({ fields: envelope.unknown.map(unknownField) });
    // Repeated names could make it as large as the body.
    if (reader.at - start > maxBytes) throw tooLarge(maxPayloadBytes);
  }
  return envelope;
}

/** @throws PAYLOAD_TOO_LARGE before it has read much more than that */
async function readField(reader: JsonReader, maxBytes: number, { turn }: RequestContext): Promise<Slice> {
  try {
    return await reader.readInTurns(maxBytes, turn);
  } catch (error) {
    if (error instanceof JsonTooLongError) throw tooLarge(maxBytes);
    throw error;
  }
}

function tooLarge(maxBytes: number) {
  return payloadTooLarge({ detail: `The payload has more than ${maxBytes} bytes, which is the limit.` });
}

const MAX_NAME_BYTES = 256;

/** The name of a member; a long one, which is none of ours, is cut. */
export function memberName(text: Buffer, { start, end }: Slice): string {
  if (end - start > MAX_NAME_BYTES) return cutText(text.toString('utf8', start + 1, start + MAX_NAME_BYTES));
  return JSON.parse(text.toString('utf8', start, end)) as string;
}

/** The value of a field of ours. A long one fits none: its place is taken by null, which fits none either. */
export function smallValue(text: Buffer, { start, end }: Slice): unknown {
  return end - start > MAX_FIELD_BYTES ? null : (JSON.parse(text.toString('utf8', start, end)) as unknown);
}

/** @throws PAYLOAD_TOO_LARGE */
export function checkSize(bytes: number, maxBytes: number): void {
  if (bytes > maxBytes)
    throw payloadTooLarge({ detail: `The payload has ${bytes} bytes; at most ${maxBytes} are allowed.` });
}

function unknownField(field: string): FieldProblem {
  return { field, reason: 'is not a known field', fix: 'Put your own data into "payload".' };
}

function fieldProblems(envelope: Envelope, context: RequestContext): FieldProblem[] {
  const problems: FieldProblem[] = [];
  const type = typeProblem(envelope.type);
  if (type) problems.push(type);
  if (envelope.payload === undefined)
    problems.push({ field: 'payload', reason: 'is missing', fix: 'Add it; null is allowed.' });
  const key = keyProblem(envelope.idempotencyKey, context.idempotencyKey);
  if (key) problems.push(key);
  const { occurredAt } = envelope;
  if (occurredAt !== undefined && !isTimestamp(occurredAt)) {
    problems.push({
      field: 'occurredAt',
      reason: 'is not an RFC 3339 time',
      fix: 'Send for example 2026-01-31T12:00:00Z.',
    });
  }
  return [...problems, ...envelope.unknown.map(unknownField)];
}

export function typeProblem(type: unknown): FieldProblem | null {
  if (type === undefined)
    return { field: 'type', reason: 'is missing', fix: 'Add it, for example "order.paid".' };
  if (typeof type === 'string' && RESERVED.test(type)) {
    const fix = 'Send for example "order.paid"; endpoint.* and delivery.* are told by RelayOps itself.';
    return { field: 'type', reason: 'is reserved for operational events', fix };
  }
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
