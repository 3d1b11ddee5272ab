import { createHash } from 'node:crypto';
import type { IncomingHttpHeaders } from 'node:http';
import type { JsonReader } from '../platform/json/json-reader.ts';
import type { FieldProblem } from '../shared/errors.ts';
import { cloudEventInvalid } from './events.errors.ts';
import type { IncomingEvent } from './incoming.ts';
import {
  checkSize,
  isTimestamp,
  MAX_IDEMPOTENCY_KEY_LENGTH,
  type RequestContext,
  smallValue,
  typeProblem,
} from './native.ts';

export const STRUCTURED = 'application/cloudevents+json';
export const STRUCTURED_BATCH = 'application/cloudevents-batch+json';

/**
 * A CloudEvent in structured mode (CloudEvents HTTP binding 1.0.2, section 3.2). The whole envelope is the payload, byte for byte, and
 * is delivered in structured mode too.
 * @param reader stands at the event, in `text`
 * @throws CLOUDEVENT_INVALID, PAYLOAD_TOO_LARGE, JsonError
 */
export async function structuredEvent(
  reader: JsonReader,
  text: Buffer,
  context: RequestContext,
): Promise<IncomingEvent> {
  const isObject = reader.peek() === '{';
  const start = reader.at;
  const attributes = isObject ? await readAttributes(reader, text, context) : {};
  if (!isObject) {
    await reader.readInTurns(Infinity, context.turn);
    throw cloudEventInvalid({ fields: [{ field: 'body', reason: 'is not an object' }] });
  }
  refuseProblems(attributes, '');
  checkSize(reader.at - start, context.maxPayloadBytes);
  return {
    ...common(attributes, context),
    contentType: STRUCTURED,
    payload: Buffer.from(text.subarray(start, reader.at)),
    format: 'cloudevents-structured',
    attributes: null,
  };
}

const ATTRIBUTES = new Set(['specversion', 'id', 'source', 'type', 'time', 'traceparent']);
const LONGEST_ATTRIBUTE = Math.max(...Array.from(ATTRIBUTES, (name) => name.length));

/** The attributes that this module looks at; the rest is read over. Of a repeated name the last counts. */
async function readAttributes(
  reader: JsonReader,
  text: Buffer,
  { turn }: RequestContext,
): Promise<Record<string, unknown>> {
  const attributes: Record<string, unknown> = {};
  for (let more = reader.enterObject(); more; more = reader.nextMember()) {
    const { start, end } = reader.readName();
    // Escapes make a name longer than it is: six bytes for one character.
    const isShort = end - start <= 6 * LONGEST_ATTRIBUTE + 2;
    const name = isShort ? (JSON.parse(text.toString('utf8', start, end)) as string) : '';
    const value = await reader.readInTurns(Infinity, turn);
    if (ATTRIBUTES.has(name)) attributes[name] = smallValue(text, value);
  }
  return attributes;
}

/** True when a request carries a CloudEvent in binary mode: its attributes are headers. */
export function isBinaryMode(headers: IncomingHttpHeaders): boolean {
  return headers['ce-specversion'] !== undefined;
}

/**
 * A CloudEvent in binary mode (section 3.1): the body is the data, untouched; the `ce-` headers are kept and travel with each delivery.
 * @throws CLOUDEVENT_INVALID, PAYLOAD_TOO_LARGE
 */
export function binaryEvent(
  headers: IncomingHttpHeaders,
  body: Buffer,
  context: RequestContext,
): IncomingEvent {
  const sent = Object.entries(headers).filter(([name]) => name.startsWith('ce-'));
  const carried = Object.fromEntries(sent.map(([name, value]) => [name, decodeHeader(String(value))]));
  const attributes = Object.fromEntries(
    Object.entries(carried).map(([name, value]) => [name.slice(3), value]),
  );
  refuseProblems(attributes, 'ce-');
  checkSize(body.length, context.maxPayloadBytes);
  return {
    ...common(attributes, context),
    contentType: headers['content-type'] ?? 'application/octet-stream',
    payload: body,
    format: 'cloudevents-binary',
    attributes: carried,
  };
}

function common(attributes: Record<string, unknown>, context: RequestContext) {
  const time = attributes['time'];
  const traceparent = attributes['traceparent'];
  return {
    tenantId: context.tenantId,
    type: attributes['type'] as string,
    idempotencyKey:
      context.idempotencyKey ?? keyOf(attributes['source'] as string, attributes['id'] as string),
    // The distributed tracing extension describes the event's own trace, which matters more than that of the request.
    traceparent:
      typeof traceparent === 'string' && isTraceparent(traceparent) ? traceparent : context.traceparent,
    occurredAt: typeof time === 'string' ? new Date(time) : null,
  };
}

/** Source and ID together identify an event (CloudEvents 1.0.2, section 3.1.1), so they are its idempotency key. */
function keyOf(source: string, id: string): string {
  const key = 'ce:' + JSON.stringify([source, id]);
  return key.length <= MAX_IDEMPOTENCY_KEY_LENGTH
    ? key
    : 'ce:sha256:' + createHash('sha256').update(key).digest('hex');
}

function refuseProblems(attributes: Record<string, unknown>, prefix: string): void {
  const problems: FieldProblem[] = [];
  if (attributes['specversion'] !== '1.0')
    problems.push({ field: `${prefix}specversion`, reason: 'is not "1.0"' });
  for (const name of ['id', 'source']) {
    const value = attributes[name];
    // eslint-disable-next-line no-control-regex -- U+0000 cannot be stored as text
    if (typeof value !== 'string' || value === '' || /\u0000/.test(value)) {
      problems.push({ field: prefix + name, reason: 'is not a non-empty string' });
    }
  }
  const type = typeProblem(attributes['type']);
  if (type) problems.push({ ...type, field: prefix + 'type' });
  const time = attributes['time'];
  if (time !== undefined && !isTimestamp(time))
    problems.push({ field: `${prefix}time`, reason: 'is not an RFC 3339 time' });
  if (problems.length > 0)
    throw cloudEventInvalid({
      detail: problems.map((p) => `${p.field} ${p.reason}`).join('; ') + '.',
      fields: problems,
    });
}

/** Undoes the percent-encoding of header values (section 3.1.3.2); what is not well-formed stays as it came. */
function decodeHeader(value: string): string {
  try {
    return decodeURIComponent(value).replaceAll('\0', '');
  } catch (error) {
    if (error instanceof URIError) return value;
    throw error;
  }
}

/** W3C Trace Context, version 00 to fe. */
export function isTraceparent(text: string): boolean {
  return /^(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}$/.test(text);
}
