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

/** How much of an event that was refused is read over in one turn. */
const SKIP_BYTES = 131_072;

/**
 * Reads a JSON text with `read`.
 * @throws BODY_MALFORMED, also when it is not UTF-8, because its bytes could not be delivered as they came; BODY_TOO_DEEP;
 * what `read` throws
 */
export async function readJson<T>(body: Buffer, read: (reader: JsonReader) => Promise<T>): Promise<T> {
  if (!isUtf8(body)) throw notUtf8();
  try {
    return await read(new JsonReader(body));
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
  maxEvents: number,
): Promise<(IncomingEvent | RelayError)[]> {
  if (!isUtf8(body)) throw notUtf8();
  // An event is one level itself, and its payload may have the limit.
  const reader = new JsonReader(body, MAX_JSON_DEPTH + 1);
  try {
    return form === 'native'
      ? await nativeBatch(reader, body, context, maxEvents)
      : await structuredBatch(reader, body, context, maxEvents);
  } catch (error) {
    throw explainJson(error);
  }
}

const EVENTS_FIX = 'Send {"events": [{"type": …, "payload": …}]}.';

async function nativeBatch(
  reader: JsonReader,
  body: Buffer,
  context: RequestContext,
  maxEvents: number,
): Promise<(IncomingEvent | RelayError)[]> {
  const members = reader.peek() === '{' && reader.enterObject();
  let events: (IncomingEvent | RelayError)[] = [];
  const unknown: string[] = [];
  for (let more = members; more; more = reader.nextMember()) {
    const name = memberName(body, reader.readName());
    if (name === 'events' && reader.peek() === '[')
      events = await readEvents(reader, body, nativeEvent, context, maxEvents);
    else {
      await skip(reader, context.turn);
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
  maxEvents: number,
): Promise<(IncomingEvent | RelayError)[]> {
  if (reader.peek() !== '[')
    throw eventInvalid({ fields: [{ field: 'body', reason: 'is not an array of CloudEvents' }] });
  const events = await readEvents(reader, body, structuredEvent, context, maxEvents);
  reader.readEnd();
  return events;
}

async function readEvents(
  reader: JsonReader,
  body: Buffer,
  read: (reader: JsonReader, text: Buffer, context: RequestContext) => Promise<IncomingEvent>,
  context: RequestContext,
  maxEvents: number,
): Promise<(IncomingEvent | RelayError)[]> {
  const events: (IncomingEvent | RelayError)[] = [];
  const maxBytes = context.maxPayloadBytes + MAX_ENVELOPE_BYTES;
  let turnEnds = performance.now() + TURN_MS;
  for (let more = reader.enterArray(); more; more = reader.nextElement()) {
    if (events.length === maxEvents)
      throw batchTooLarge({ detail: `At most ${maxEvents} events are allowed in one batch.` });
    if (performance.now() > turnEnds) {
      await context.turn();
      turnEnds = performance.now() + TURN_MS;
    }
    const slice = await eventSlice(reader, maxBytes, context.turn);
    if (slice instanceof RelayError) events.push(slice);
    else {
      const text = body.subarray(slice.start, slice.end);
      events.push(await valueOrError(() => read(new JsonReader(text), text, context)));
    }
  }
  return events;
}

/** The next element, or why it cannot be taken: it has been read over then. */
async function eventSlice(
  reader: JsonReader,
  maxBytes: number,
  turn: () => Promise<void>,
): Promise<Slice | RelayError> {
  try {
    return await reader.readInTurns(maxBytes, turn);
  } catch (error) {
    if (!(error instanceof JsonTooLongError || error instanceof JsonTooDeepError)) throw error;
    await skipRest(reader, turn);
    if (error instanceof JsonTooDeepError) return tooDeep(error);
    return payloadTooLarge({ detail: `An event of the batch has more than ${maxBytes} bytes.` });
  }
}

async function skip(reader: JsonReader, turn: () => Promise<void>): Promise<void> {
  try {
    await reader.readInTurns(Infinity, turn);
  } catch (error) {
    if (!(error instanceof JsonTooDeepError)) throw error;
    await skipRest(reader, turn);
  }
}

async function skipRest(reader: JsonReader, turn: () => Promise<void>): Promise<void> {
  do await turn();
  while (reader.continueValue(SKIP_BYTES) === undefined);
}

async function valueOrError<T>(parse: () => Promise<T>): Promise<T | RelayError> {
  try {
    return await parse();
  } catch (error) {
    if (error instanceof RelayError) return error;
    throw error;
  }
}
