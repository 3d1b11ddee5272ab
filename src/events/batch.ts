import { isUtf8 } from 'node:buffer';
import { bodyMalformed, bodyTooDeep, MAX_LISTED_PROBLEMS } from '../platform/http/problem.ts';
import {
  JsonError,
  JsonReader,
  JsonTooDeepError,
  JsonTooLongError,
  MAX_JSON_DEPTH,
  type Slice,
} from '../platform/json/json-reader.ts';
import { TURN_MS } from '../shared/loop-turns.ts';
import { RelayError } from '../shared/errors.ts';
import { structuredEvent } from './cloudevents.ts';
import { batchTooLarge, eventInvalid, payloadTooLarge } from './events.errors.ts';
import type { IncomingEvent } from './incoming.ts';
import { MAX_ENVELOPE_BYTES, memberName, nativeEvent, type RequestContext } from './native.ts';

export interface BatchRules {
  readonly maxEvents: number;
  /** Resolves when this batch may use the event loop again. */
  readonly turn: () => Promise<void>;
}

/** How much of an event that is too large is read over in one turn. */
const SKIP_BYTES = 262_144;

/**
 * Reads a JSON text with `read`.
 * @throws BODY_MALFORMED, also when it is not UTF-8, because its bytes could not be delivered as they came; BODY_TOO_DEEP;
 * what `read` throws
 */
export function readJson<T>(body: Buffer, read: (reader: JsonReader) => T): T {
  if (!isUtf8(body)) throw notUtf8();
  try {
    return read(new JsonReader(body));
  } catch (error) {
    throw explainJson(error);
  }
}

function explainJson(error: unknown): unknown {
  if (error instanceof JsonError)
    return bodyMalformed({ detail: `Not valid JSON: ${error.message}.`, cause: error });
  if (error instanceof JsonTooDeepError) return tooDeep(error);
  return error;
}

function notUtf8(): RelayError {
  return bodyMalformed({ detail: 'The body is not valid UTF-8.' });
}

function tooDeep(error: JsonTooDeepError): RelayError {
  return bodyTooDeep({ detail: `At most ${MAX_JSON_DEPTH} levels are read.`, cause: error });
}

/**
 * The events of a batch, or the reason why one is not valid, in order. A batch may be megabytes, so it is read in pieces.
 * @param form `native`: `{"events": [...]}`; `structured`: an array of CloudEvents
 * @throws BODY_MALFORMED, BODY_TOO_DEEP, EVENT_INVALID, BATCH_TOO_LARGE: for the batch as a whole
 */
export async function readBatch(
  body: Buffer,
  form: 'native' | 'structured',
  context: RequestContext,
  rules: BatchRules,
): Promise<(IncomingEvent | RelayError)[]> {
  if (!isUtf8(body)) throw notUtf8();
  // An event is one level itself, and its payload may have the limit.
  const reader = new JsonReader(body, MAX_JSON_DEPTH + 1);
  try {
    return form === 'native'
      ? await nativeBatch(reader, body, context, rules)
      : await structuredBatch(reader, body, context, rules);
  } catch (error) {
    throw explainJson(error);
  }
}

const EVENTS_FIX = 'Send {"events": [{"type": …, "payload": …}]}.';

async function nativeBatch(
  reader: JsonReader,
  body: Buffer,
  context: RequestContext,
  rules: BatchRules,
): Promise<(IncomingEvent | RelayError)[]> {
  const members = reader.peek() === '{' && reader.enterObject();
  let events: (IncomingEvent | RelayError)[] = [];
  const unknown: string[] = [];
  for (let more = members; more; more = reader.nextMember()) {
    const name = memberName(body, reader.readName());
    if (name === 'events' && reader.peek() === '[')
      events = await readEvents(reader, body, nativeEvent, context, rules);
    else {
      await skip(reader, rules);
      if (name !== 'events') unknown.push(name);
      if (unknown.length > MAX_LISTED_PROBLEMS) break;
    }
  }
  if (unknown.length > 0)
    throw eventInvalid({
      fields: unknown.map((field) => ({
        field,
        reason: 'is not a known field',
        fix: 'Send "events" alone.',
      })),
    });
  if (events.length === 0)
    throw eventInvalid({
      fields: [{ field: 'events', reason: 'is not a non-empty array', fix: EVENTS_FIX }],
    });
  reader.readEnd();
  return events;
}

async function structuredBatch(
  reader: JsonReader,
  body: Buffer,
  context: RequestContext,
  rules: BatchRules,
): Promise<(IncomingEvent | RelayError)[]> {
  if (reader.peek() !== '[')
    throw eventInvalid({ fields: [{ field: 'body', reason: 'is not an array of CloudEvents' }] });
  const events = await readEvents(reader, body, structuredEvent, context, rules);
  reader.readEnd();
  return events;
}

async function readEvents(
  reader: JsonReader,
  body: Buffer,
  read: (reader: JsonReader, text: Buffer, context: RequestContext) => IncomingEvent,
  context: RequestContext,
  rules: BatchRules,
): Promise<(IncomingEvent | RelayError)[]> {
  const events: (IncomingEvent | RelayError)[] = [];
  const maxBytes = context.maxPayloadBytes + MAX_ENVELOPE_BYTES;
  let turnEnds = performance.now() + TURN_MS;
  for (let more = reader.enterArray(); more; more = reader.nextElement()) {
    if (events.length === rules.maxEvents)
      throw batchTooLarge({ detail: `At most ${rules.maxEvents} events are allowed in one batch.` });
    if (performance.now() > turnEnds) {
      await rules.turn();
      turnEnds = performance.now() + TURN_MS;
    }
    const slice = await eventSlice(reader, maxBytes, rules);
    if (slice instanceof RelayError) events.push(slice);
    else {
      const text = body.subarray(slice.start, slice.end);
      events.push(valueOrError(() => read(new JsonReader(text), text, context)));
    }
  }
  return events;
}

/** The next element, or why it cannot be taken: it has been read over then. */
async function eventSlice(
  reader: JsonReader,
  maxBytes: number,
  rules: BatchRules,
): Promise<Slice | RelayError> {
  try {
    return reader.readValue(maxBytes);
  } catch (error) {
    if (!(error instanceof JsonTooLongError || error instanceof JsonTooDeepError)) throw error;
    await skipRest(reader, rules);
    if (error instanceof JsonTooDeepError) return tooDeep(error);
    return payloadTooLarge({ detail: `An event of the batch has more than ${maxBytes} bytes.` });
  }
}

async function skip(reader: JsonReader, rules: BatchRules): Promise<void> {
  try {
    reader.readValue(SKIP_BYTES);
  } catch (error) {
    if (!(error instanceof JsonTooLongError || error instanceof JsonTooDeepError)) throw error;
    await skipRest(reader, rules);
  }
}

async function skipRest(reader: JsonReader, rules: BatchRules): Promise<void> {
  do await rules.turn();
  while (reader.continueValue(SKIP_BYTES) === undefined);
}

function valueOrError<T>(parse: () => T): T | RelayError {
  try {
    return parse();
  } catch (error) {
    if (error instanceof RelayError) return error;
    throw error;
  }
}
