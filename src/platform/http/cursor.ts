import { defineError } from '../../shared/errors.ts';

export const cursorInvalid = defineError({
  code: 'CURSOR_INVALID',
  kind: 'invalid',
  title: 'The cursor was not made by this list.',
  fix: 'Pass on "nextCursor" unchanged, to the same list, or leave it out to begin at the start.',
});

/** Longer text cannot be a cursor of ours and is not decoded. */
const MAX_LENGTH = 4096;
const BASE64URL = /^[A-Za-z0-9_-]+$/;

/**
 * An opaque keyset cursor: the sort key of the last row shown, as a JSON array in base64url. It carries no secret and is not
 * signed; whoever makes one up only chooses where their own list begins.
 */
export function encodeCursor(parts: readonly string[]): string {
  return Buffer.from(JSON.stringify(parts), 'utf8').toString('base64url');
}

/**
 * The parts that `encodeCursor` was given. The caller still checks what they mean (an ID, a time).
 * @throws CURSOR_INVALID when the text is not exactly what `encodeCursor` makes of that many parts
 */
export function decodeCursor(text: string, expectedParts: number): string[] {
  if (text.length > MAX_LENGTH || !BASE64URL.test(text)) throw cursorInvalid();
  const parts = parsed(Buffer.from(text, 'base64url').toString('utf8'));
  if (!isTexts(parts) || parts.length !== expectedParts || encodeCursor(parts) !== text)
    throw cursorInvalid();
  return parts;
}

function parsed(json: string): unknown {
  try {
    return JSON.parse(json) as unknown;
  } catch (error) {
    throw cursorInvalid({ cause: error });
  }
}

function isTexts(value: unknown): value is string[] {
  return Array.isArray(value) && value.every((part) => typeof part === 'string');
}
