/**
 * Where values lie in the bytes of a JSON text, so that a payload can be kept exactly as it was sent: key order, white space, escapes
 * and long numbers included (SPEC C5). Works on text that JSON.parse has accepted; it skips, it does not check.
 */
export interface Slice {
  readonly start: number;
  /** First byte after the value. */
  readonly end: number;
}

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;

/** The members of the object at `start`. Of a repeated name the last counts, as with JSON.parse. */
export function objectMembers(text: Buffer, start = 0): Map<string, Slice> {
  const members = new Map<string, Slice>();
  let at = skipSpace(text, skipSpace(text, start) + 1);
  while (text[at] !== CLOSE_BRACE) {
    const nameEnd = stringEnd(text, at);
    const name = JSON.parse(text.toString('utf8', at, nameEnd)) as string;
    // Past the colon.
    const valueStart = skipSpace(text, skipSpace(text, nameEnd) + 1);
    const end = valueEnd(text, valueStart);
    members.set(name, { start: valueStart, end });
    at = skipSpace(text, end);
    if (text[at] === COMMA) at = skipSpace(text, at + 1);
  }
  return members;
}

/** The elements of the array at `start`, in order. */
export function arrayElements(text: Buffer, start = 0): Slice[] {
  const elements: Slice[] = [];
  let at = skipSpace(text, skipSpace(text, start) + 1);
  while (text[at] !== CLOSE_BRACKET) {
    const end = valueEnd(text, at);
    elements.push({ start: at, end });
    at = skipSpace(text, end);
    if (text[at] === COMMA) at = skipSpace(text, at + 1);
  }
  return elements;
}

function skipSpace(text: Buffer, at: number): number {
  while (isSpace(text[at])) at += 1;
  return at;
}

function isSpace(byte: number | undefined): boolean {
  return byte === 0x20 || byte === 0x0a || byte === 0x0d || byte === 0x09;
}

function valueEnd(text: Buffer, start: number): number {
  const first = text[start];
  if (first === QUOTE) return stringEnd(text, start);
  if (first === OPEN_BRACE || first === OPEN_BRACKET) return nestedEnd(text, start);
  let at = start;
  while (at < text.length && !isEndOfLiteral(text[at])) at += 1;
  return at;
}

function isEndOfLiteral(byte: number | undefined): boolean {
  return byte === COMMA || byte === CLOSE_BRACE || byte === CLOSE_BRACKET || byte === COLON || isSpace(byte);
}

function nestedEnd(text: Buffer, start: number): number {
  let depth = 0;
  let at = start;
  for (;;) {
    const byte = text[at];
    if (byte === QUOTE) {
      at = stringEnd(text, at);
      continue;
    }
    if (byte === OPEN_BRACE || byte === OPEN_BRACKET) depth += 1;
    if (byte === CLOSE_BRACE || byte === CLOSE_BRACKET) depth -= 1;
    at += 1;
    if (depth === 0) return at;
    if (at >= text.length) throw new Error('the text is not valid JSON');
  }
}

function stringEnd(text: Buffer, start: number): number {
  let at = start + 1;
  for (;;) {
    at = text.indexOf(QUOTE, at);
    if (at < 0) throw new Error('the text is not valid JSON');
    let backslashes = 0;
    while (text[at - 1 - backslashes] === BACKSLASH) backslashes += 1;
    at += 1;
    if (backslashes % 2 === 0) return at;
  }
}
