import type { Transform } from 'node:stream';
import { constants, createBrotliDecompress, createGunzip, createInflate } from 'node:zlib';

/** The first `limit` bytes of the decompressed body. What cannot be decompressed counts as cut off, it is only a response. */
export async function decompress(
  encoding: string | undefined,
  raw: Buffer,
  limit: number,
): Promise<{ body: Buffer; truncated: boolean }> {
  const decoder =
    encoding === undefined || raw.length === 0 ? undefined : decoderFor(encoding.trim().toLowerCase());
  if (decoder === undefined) return { body: raw, truncated: false };
  const chunks: Buffer[] = [];
  let bytes = 0;
  try {
    decoder.end(raw);
    for await (const chunk of decoder as AsyncIterable<Buffer>) {
      chunks.push(chunk);
      bytes += chunk.length;
      // Leaving the loop destroys the stream: a bomb costs one chunk more than the limit.
      if (bytes > limit) break;
    }
    return { body: Buffer.concat(chunks), truncated: bytes > limit };
  } catch {
    // Malformed or cut compressed data: a fact about the receiver's answer, shown as truncated.
    return { body: Buffer.concat(chunks), truncated: true };
  }
}

function decoderFor(encoding: string): Transform | undefined {
  switch (encoding) {
    case 'gzip':
    case 'x-gzip':
      return createGunzip({ finishFlush: constants.Z_SYNC_FLUSH });
    case 'deflate':
      return createInflate({ finishFlush: constants.Z_SYNC_FLUSH });
    case 'br':
      return createBrotliDecompress({ finishFlush: constants.BROTLI_OPERATION_FLUSH });
    default:
      return undefined;
  }
}
