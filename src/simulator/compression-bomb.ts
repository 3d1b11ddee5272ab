import { promisify } from 'node:util';
import {
  type InputType,
  constants,
  createBrotliCompress,
  deflateRaw,
  gzip,
  type BrotliCompress,
  type ZlibOptions,
} from 'node:zlib';
import type { Encoding } from './behaviour.ts';

/** What each bomb becomes: 1 GiB of zero bytes. */
export const BOMB_BYTES = 2 ** 30;

const MIB = 2 ** 20;
const BROTLI_CHUNK_BYTES = 16 * MIB;
const ADLER_MODULUS = 65_521;
const gzipped = promisify<InputType, ZlibOptions, Buffer>(gzip);
const deflated = promisify<InputType, ZlibOptions, Buffer>(deflateRaw);

/**
 * A body that is about 1 MiB (Brotli: some hundred bytes) on the wire and 1 GiB when decompressed. Made in milliseconds, because
 * only one piece is compressed and then repeated: each format lets compressed pieces follow one another.
 */
export async function compressionBomb(encoding: Encoding): Promise<Buffer> {
  switch (encoding) {
    case 'gzip':
      return repeated(await gzipped(Buffer.alloc(MIB), { level: 9 }), BOMB_BYTES / MIB);
    case 'deflate':
      return deflateBomb();
    case 'br':
      return brotliBomb();
  }
}

function repeated(piece: Buffer, times: number): Buffer {
  return Buffer.alloc(piece.length * times, piece);
}

/** RFC 1950: header, raw deflate data, Adler-32. For n zero bytes the checksum's halves are n mod 65521 and 1. */
async function deflateBomb(): Promise<Buffer> {
  const piece = await deflated(Buffer.alloc(MIB), { level: 9, finishFlush: constants.Z_FULL_FLUSH });
  const header = Buffer.from([0x78, 0xda]);
  const emptyLastBlock = Buffer.from([0x03, 0x00]);
  const checksum = Buffer.alloc(4);
  checksum.writeUInt16BE(BOMB_BYTES % ADLER_MODULUS, 0);
  checksum.writeUInt16BE(1, 2);
  return Buffer.concat([header, repeated(piece, BOMB_BYTES / MIB), emptyLastBlock, checksum]);
}

/** The second flushed piece of the same bytes depends only on the window, which is full by then: it may follow itself. */
async function brotliBomb(): Promise<Buffer> {
  const stream = createBrotliCompress({ params: { [constants.BROTLI_PARAM_QUALITY]: 5 } });
  const chunk = Buffer.alloc(BROTLI_CHUNK_BYTES);
  const first = await flushed(stream, chunk);
  const next = await flushed(stream, chunk);
  stream.end();
  const last = (await stream.toArray()) as Buffer[];
  return Buffer.concat([first, repeated(next, BOMB_BYTES / BROTLI_CHUNK_BYTES - 1), ...last]);
}

async function flushed(stream: BrotliCompress, chunk: Buffer): Promise<Buffer> {
  const done = new Promise<void>((resolve) => {
    stream.write(chunk);
    stream.flush(() => resolve());
  });
  await done;
  const pieces: Buffer[] = [];
  for (let piece: unknown = stream.read(); piece !== null; piece = stream.read())
    pieces.push(piece as Buffer);
  return Buffer.concat(pieces);
}
