import type { IncomingHttpHeaders, ServerResponse } from 'node:http';
import type { Socket } from 'node:net';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createBrotliCompress, createDeflate, createGzip } from 'node:zlib';
import { sleep } from '../shared/abort.ts';
import type { Behaviour, Encoding } from './behaviour.ts';
import { compressionBomb } from './compression-bomb.ts';
import type { Fate } from './fate.ts';
import type { Arrival } from './receiver.ts';

const COMPRESSORS = { gzip: createGzip, br: createBrotliCompress, deflate: createDeflate } as const;
const FILLER = Buffer.alloc(65_536, '.');
const JSON_TYPE = 'application/json';
const OK_BODY = '{"ok":true}';
const FAILED_BODY = '{"ok":false}';

/** Carries out what was decided for a request, and tells the arrival how it ended. */
export function carryOut(fate: Fate, behaviour: Behaviour, arrival: Arrival, response: ServerResponse): void {
  if (response.destroyed) return arrival.end('left');
  const { socket } = response;
  switch (fate.kind) {
    case 'drop':
      arrival.end('dropped');
      socket?.destroy();
      return;
    case 'hang':
      arrival.end('hung');
      return;
    case 'reset':
      arrival.end('reset');
      resetAfterHeaders(fate.status, behaviour, response, socket);
      return;
    case 'answer':
      arrival.end(fate.status);
      answer(fate.status, behaviour, arrival, response);
  }
}

/** The body is announced and begun, so that the client has headers before its connection breaks. */
function resetAfterHeaders(
  status: number,
  behaviour: Behaviour,
  response: ServerResponse,
  socket: Socket | null,
): void {
  response.writeHead(status, headersOf(behaviour, JSON_TYPE, OK_BODY.length));
  response.write(OK_BODY.slice(0, 1), () => socket?.resetAndDestroy());
}

function answer(status: number, behaviour: Behaviour, arrival: Arrival, response: ServerResponse): void {
  if (status === 204 || status === 304) {
    response.writeHead(status, headersOf(behaviour, undefined, undefined));
    response.end();
    return;
  }
  const { bomb, encoding, endless, bodyBytes, dripMs } = behaviour;
  if (!bomb && !encoding && !endless && bodyBytes === undefined && dripMs === 0) {
    const body = bodyOf(status, behaviour, arrival);
    // As text, body and headers leave in one write; a buffer takes a writev, which cost 28 % of a saturated simulator.
    response.writeHead(status, headersOf(behaviour, JSON_TYPE, Buffer.byteLength(body)));
    response.end(body);
    return;
  }
  // That a client has had enough of such a body and goes is what it is for; either way the connection is over.
  stream(status, behaviour, arrival, response).catch(() => response.destroy());
}

async function stream(
  status: number,
  behaviour: Behaviour,
  arrival: Arrival,
  response: ServerResponse,
): Promise<void> {
  const { bomb, endless, bodyBytes, dripMs } = behaviour;
  const encoding = bomb ? (behaviour.encoding ?? 'gzip') : behaviour.encoding;
  const isFiller = endless || bodyBytes !== undefined;
  const body = Buffer.from(isFiller || bomb ? '' : bodyOf(status, behaviour, arrival));
  const length = endless ? Infinity : (bodyBytes ?? body.length);
  const type = isFiller || bomb ? 'application/octet-stream' : JSON_TYPE;
  response.writeHead(status, headersOf(behaviour, type, encoding || endless ? undefined : length, encoding));
  const left = new AbortController();
  response.once('close', () => left.abort());
  const source = Readable.from(isFiller ? filler(length) : [body]);
  if (bomb)
    await pipeline(
      Readable.from([await compressionBomb(encoding ?? 'gzip')]),
      slowly(dripMs, left.signal),
      response,
    );
  else if (encoding) await pipeline(source, COMPRESSORS[encoding](), slowly(dripMs, left.signal), response);
  else await pipeline(source, slowly(dripMs, left.signal), response);
}

function* filler(bytes: number): Generator<Buffer> {
  for (let left = bytes; left > 0; left -= FILLER.length)
    yield left < FILLER.length ? FILLER.subarray(0, left) : FILLER;
}

function slowly(
  dripMs: number,
  signal: AbortSignal,
): (source: AsyncIterable<Buffer>) => AsyncGenerator<Buffer> {
  return async function* (source) {
    for await (const chunk of source) {
      // Nobody reads any more: an endless source would be read for ever, and nothing else would run.
      if (signal.aborted) return;
      if (dripMs === 0) yield chunk;
      else
        for (let at = 0; at < chunk.length && !signal.aborted; at += 1) {
          yield chunk.subarray(at, at + 1);
          await sleep(dripMs, signal);
        }
    }
  };
}

function headersOf(
  behaviour: Behaviour,
  type: string | undefined,
  length: number | undefined,
  encoding?: Encoding,
): string[] {
  const headers: string[] = [];
  const contentType = behaviour.contentType ?? type;
  if (contentType !== undefined) headers.push('content-type', contentType);
  if (length !== undefined) headers.push('content-length', String(length));
  if (encoding !== undefined) headers.push('content-encoding', encoding);
  if (behaviour.redirect !== undefined) headers.push('location', behaviour.redirect);
  if (behaviour.retryAfter !== undefined) headers.push('retry-after', behaviour.retryAfter);
  return headers;
}

function bodyOf(status: number, { body, contentType }: Behaviour, { request, occasion }: Arrival): string {
  if (body === undefined) return status < 300 ? OK_BODY : FAILED_BODY;
  const { headers } = request;
  const values: Readonly<Record<string, string>> = {
    deliveryId: textOf(headers, 'x-relayops-delivery-id'),
    eventId: textOf(headers, 'x-relayops-event-id'),
    attempt: textOf(headers, 'x-relayops-attempt'),
    type: textOf(headers, 'x-relayops-event-type'),
    count: String(occasion.deliveryBefore + 1),
  };
  const isJson = (contentType ?? JSON_TYPE).includes('json');
  return body.replace(/\{\{(\w+)\}\}/g, (placeholder, name: string) => {
    const value = values[name] ?? placeholder;
    return isJson ? JSON.stringify(value).slice(1, -1) : value;
  });
}

function textOf(headers: IncomingHttpHeaders, name: string): string {
  const value = headers[name];
  return typeof value === 'string' ? value : '';
}
