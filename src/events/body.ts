import type { IncomingHttpHeaders, IncomingMessage } from 'node:http';
import type { Readable } from 'node:stream';
import { constants, createGunzip } from 'node:zlib';
import {
  bodyTooLarge,
  contentCodingInvalid,
  contentCodingUnsupported,
  cutText,
  requestMalformed,
} from '../platform/http/problem.ts';
import type { RelayError } from '../shared/errors.ts';
import type { BodyHold } from './body-budget.ts';
import { backlogFull } from './events.errors.ts';

/** Pause that is asked for when this process holds as many bytes of bodies as it may. */
const BUDGET_RETRY_S = 1;

/**
 * Reads a request's body as bytes, and decodes gzip on the way, each within `maxBytes`.
 * @param hold what the request holds of the memory for bodies; it takes as much as arrives
 * @throws BODY_TOO_LARGE, CONTENT_CODING_UNSUPPORTED, CONTENT_CODING_INVALID, BACKLOG_FULL, REQUEST_MALFORMED
 */
export async function readBody(message: IncomingMessage, maxBytes: number, hold: BodyHold): Promise<Buffer> {
  const length = Number(message.headers['content-length'] ?? 0);
  if (length > maxBytes) throw tooLarge(maxBytes);
  const decoder = decoderOf(message.headers);
  if (decoder === null) return collect(message, maxBytes, hold);
  message.pipe(decoder);
  // The pipe passes data on, not a connection that broke.
  message.once('error', (error) => decoder.destroy(error));
  try {
    return await collect(decoder, maxBytes, hold);
  } finally {
    message.unpipe(decoder);
    decoder.destroy();
  }
}

/** Null when the body is sent as it is. @throws CONTENT_CODING_UNSUPPORTED */
function decoderOf(headers: IncomingHttpHeaders) {
  const coding = (headers['content-encoding'] ?? '').trim().toLowerCase();
  if (coding === '' || coding === 'identity') return null;
  if (coding === 'gzip' || coding === 'x-gzip') return createGunzip({ finishFlush: constants.Z_FINISH });
  throw contentCodingUnsupported({ detail: `The body came with Content-Encoding: ${cutText(coding)}.` });
}

/** A data listener, not an iterator: nearly every body is one chunk, and this is the hottest path there is. */
function collect(source: Readable, maxBytes: number, hold: BodyHold): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    const refuse = (error: RelayError): void => {
      source.removeAllListeners('data');
      reject(error);
    };
    source.on('data', (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > maxBytes) return refuse(tooLarge(maxBytes));
      if (!hold.take(chunk.length)) return refuse(noRoom());
      chunks.push(chunk);
    });
    // A copy, also of a single chunk, which is a view of the socket's shared read buffer.
    source.once('end', () => resolve(Buffer.concat(chunks, bytes)));
    source.once('error', (error: NodeJS.ErrnoException) => reject(brokenBody(error)));
  });
}

function brokenBody(error: NodeJS.ErrnoException): RelayError {
  return error.code?.startsWith('Z_') === true || error.code === 'ERR_TRAILING_JUNK_AFTER_STREAM_END'
    ? contentCodingInvalid({ detail: 'The body is not a complete gzip stream.', cause: error })
    : requestMalformed({ detail: 'The connection ended inside the body.', cause: error });
}

function tooLarge(maxBytes: number): RelayError {
  return bodyTooLarge({
    detail: `The body has more than ${maxBytes} bytes, which is the limit of this route.`,
  });
}

function noRoom(): RelayError {
  const detail = 'This process holds as many bytes of request bodies as it may, in all or of this tenant.';
  return backlogFull({ detail, retryAfterSeconds: BUDGET_RETRY_S });
}
