/** The text is not JSON (RFC 8259). */
export class JsonError extends Error {
  /** Byte offset of the first byte that does not fit. */
  readonly at: number;

  constructor(reason: string, at: number) {
    super(`${reason} at byte ${at}`);
    this.name = 'JsonError';
    this.at = at;
  }
}

/** The text is nested deeper than its reader goes down. */
export class JsonTooDeepError extends Error {
  constructor(maxDepth: number) {
    super(`nested deeper than ${maxDepth} levels`);
    this.name = 'JsonTooDeepError';
  }
}

/** A value is longer than its reader was told to read. */
export class JsonTooLongError extends Error {
  constructor(maxBytes: number) {
    super(`a value has more than ${maxBytes} bytes`);
    this.name = 'JsonTooLongError';
  }
}

/** Where a value lies in the bytes of a JSON text. */
export interface Slice {
  readonly start: number;
  /** First byte after the value. */
  readonly end: number;
}

/**
 * Deepest nesting of arrays and objects that is read. Senders stay far below; parsers of receivers end between
 * 64 (System.Text.Json) and 1,000 (Python) levels, and some end by crashing.
 */
export const MAX_JSON_DEPTH = 128;

/** What is read of a long value at a time. */
const PIECE_BYTES = 131_072;

/** Deepest nesting of a value that is only read over. */
const MAX_SKIPPED_DEPTH = 65_536;

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const OPEN_BRACE = 0x7b;
const CLOSE_BRACE = 0x7d;
const OPEN_BRACKET = 0x5b;
const CLOSE_BRACKET = 0x5d;
const COMMA = 0x2c;
const COLON = 0x3a;
const MINUS = 0x2d;
const PLUS = 0x2b;
const DOT = 0x2e;
const ZERO = 0x30;
const NINE = 0x39;
const LOWER_E = 0x65;
const LOWER_U = 0x75;
const SPACE = 0x20;

/** 1: ends a run of plain characters inside a string, i.e. a quote, a backslash or a control character. */
const STRING_STOP = new Uint8Array(256);
STRING_STOP.fill(1, 0, SPACE);
STRING_STOP[QUOTE] = 1;
STRING_STOP[BACKSLASH] = 1;

const ESCAPES = new Uint8Array(256);
for (const letter of '"\\/bfnrt') ESCAPES[letter.charCodeAt(0)] = 1;

const HEX = new Uint8Array(256);
for (const digit of '0123456789abcdefABCDEF') HEX[digit.charCodeAt(0)] = 1;

const LITERALS = ['true', 'false', 'null'].map((word) => Buffer.from(word));

/**
 * Reads a JSON text from its bytes without building values: it checks the grammar, bounds the nesting, and says where
 * values lie, so that a payload can be kept exactly as it was sent. The caller pulls, and so decides how much is read
 * at a time. Costs about 3 ns a byte. UTF-8 is checked by the caller (`node:buffer` isUtf8).
 */
export class JsonReader {
  /** Offset of the next byte that is read. */
  at: number;
  readonly #text: Uint8Array;
  readonly #end: number;
  readonly #maxDepth: number;
  /** Of the value that is being read: its first byte, what closes its open levels, and whether it has ended. */
  #valueStart = 0;
  readonly #closes: number[] = [];
  #close = 0;
  #ended = true;

  constructor(text: Uint8Array, maxDepth = MAX_JSON_DEPTH) {
    this.#text = text;
    this.#end = text.length;
    this.#maxDepth = maxDepth;
    this.at = 0;
  }

  /** First byte of the next value: `{`, `[`, `"`, or of a number or word. Undefined at the end of the text. */
  peek(): string | undefined {
    this.#skipSpace();
    return this.at < this.#end ? String.fromCharCode(this.#text[this.at]!) : undefined;
  }

  /** Enters the object that comes next. @returns whether a member comes; read its name and value, then ask `nextMember` */
  enterObject(): boolean {
    return this.#enter(OPEN_BRACE, CLOSE_BRACE);
  }

  /** The name of a member with its quotes, and the colon after it. The value comes next. */
  readName(): Slice {
    return this.#name();
  }

  /** After a member's value. @returns whether another member comes */
  nextMember(): boolean {
    return this.#next(CLOSE_BRACE);
  }

  /** Calls `member`, which reads the value, for each member of the object that comes next. @throws JsonError */
  readObject(member: (name: Slice) => void): void {
    for (let more = this.enterObject(); more; more = this.nextMember()) member(this.readName());
  }

  /** Enters the array that comes next. @returns whether an element comes; read it, then ask `nextElement` */
  enterArray(): boolean {
    return this.#enter(OPEN_BRACKET, CLOSE_BRACKET);
  }

  /** After an element. @returns whether another one comes */
  nextElement(): boolean {
    return this.#next(CLOSE_BRACKET);
  }

  /**
   * Reads one value of any kind.
   * Where reading stops because the value is too long or too deep, `continueValue` goes on.
   * @param maxBytes it may have
   * @throws JsonError, JsonTooDeepError, JsonTooLongError
   */
  readValue(maxBytes = Infinity): Slice {
    const slice = this.startValue(maxBytes);
    if (slice === undefined || slice.end - slice.start > maxBytes) throw new JsonTooLongError(maxBytes);
    return slice;
  }

  /**
   * Reads a value in pieces, so that a long one does not hold the event loop: about 1 ms for 100 KB.
   * @param turn resolves when the next piece may be read
   * @throws JsonError, JsonTooDeepError, JsonTooLongError, as `readValue` does
   */
  async readInTurns(maxBytes: number, turn: () => Promise<void>): Promise<Slice> {
    let slice = this.startValue(PIECE_BYTES);
    while (slice === undefined) {
      if (this.at - this.#valueStart > maxBytes) throw new JsonTooLongError(maxBytes);
      await turn();
      slice = this.#ended ? this.#scanned() : this.#scan(PIECE_BYTES, this.#maxDepth);
    }
    if (slice.end - slice.start > maxBytes) throw new JsonTooLongError(maxBytes);
    return slice;
  }

  /** Begins to read a value. @returns undefined when it has not ended after `maxBytes` */
  startValue(maxBytes: number): Slice | undefined {
    this.#skipSpace();
    this.#valueStart = this.at;
    this.#closes.length = 0;
    this.#close = 0;
    this.#ended = false;
    return this.#scan(maxBytes, this.#maxDepth);
  }

  /** Reads on over a value that was refused. @returns undefined when it has not ended after `maxBytes` more */
  continueValue(maxBytes: number): Slice | undefined {
    return this.#ended ? this.#scanned() : this.#scan(maxBytes, MAX_SKIPPED_DEPTH);
  }

  #scanned(): Slice {
    return { start: this.#valueStart, end: this.at };
  }

  /** One loop over bytes, because this is where the time goes. */
  #scan(maxBytes: number, maxDepth: number): Slice | undefined {
    const text = this.#text;
    const closes = this.#closes;
    const limit = this.at + maxBytes;
    let close = this.#close;
    for (;;) {
      // A value begins here.
      let byte = text[this.at]!;
      if (byte <= SPACE) {
        this.#skipSpace();
        byte = text[this.at]!;
      }
      if (byte === OPEN_BRACE || byte === OPEN_BRACKET) {
        if (closes.length >= maxDepth) {
          this.#close = close;
          throw new JsonTooDeepError(maxDepth);
        }
        closes.push(close);
        close = byte === OPEN_BRACE ? CLOSE_BRACE : CLOSE_BRACKET;
        this.at += 1;
        this.#skipSpace();
        if (text[this.at] !== close) {
          if (close === CLOSE_BRACE) this.#name();
          continue;
        }
        this.at += 1;
        close = closes.pop()!;
      } else this.#scalar(byte);
      // A value has ended here, and perhaps those around it.
      while (close !== 0) {
        byte = text[this.at]!;
        if (byte <= SPACE) {
          this.#skipSpace();
          byte = text[this.at]!;
        }
        if (byte !== COMMA && byte !== close) throw this.#unexpected();
        this.at += 1;
        if (byte === COMMA) {
          if (close === CLOSE_BRACE) this.#name();
          break;
        }
        close = closes.pop()!;
      }
      if (close === 0) {
        this.#ended = true;
        return this.#scanned();
      }
      if (this.at > limit) {
        this.#close = close;
        return undefined;
      }
    }
  }

  /** @throws JsonError when anything but white space is left */
  readEnd(): void {
    this.#skipSpace();
    if (this.at < this.#end) throw this.#unexpected();
  }

  /** @returns whether something is inside */
  #enter(open: number, close: number): boolean {
    this.#skipSpace();
    if (this.#text[this.at] !== open) throw this.#unexpected();
    this.at += 1;
    this.#skipSpace();
    if (this.#text[this.at] !== close) return true;
    this.at += 1;
    return false;
  }

  /** @returns whether another one comes */
  #next(close: number): boolean {
    this.#skipSpace();
    const byte = this.#text[this.at];
    if (byte !== COMMA && byte !== close) throw this.#unexpected();
    this.at += 1;
    return byte === COMMA;
  }

  #name(): Slice {
    this.#skipSpace();
    const start = this.at;
    if (this.#text[start] !== QUOTE) throw this.#unexpected();
    this.#string();
    const end = this.at;
    this.#skipSpace();
    if (this.#text[this.at] !== COLON) throw this.#unexpected();
    this.at += 1;
    return { start, end };
  }

  #scalar(byte: number | undefined): void {
    if (byte === QUOTE) return this.#string();
    if (byte === MINUS || isDigit(byte)) return this.#number();
    for (const word of LITERALS) {
      if (byte !== word[0]) continue;
      for (let i = 1; i < word.length; i++)
        if (this.#text[this.at + i] !== word[i]) throw this.#unexpected(i);
      this.at += word.length;
      return;
    }
    throw this.#unexpected();
  }

  #string(): void {
    const text = this.#text;
    let at = this.at + 1;
    for (;;) {
      while (at < this.#end && STRING_STOP[text[at]!] === 0) at += 1;
      const byte = text[at];
      if (byte === QUOTE) {
        this.at = at + 1;
        return;
      }
      if (byte !== BACKSLASH) {
        this.at = at;
        throw this.#unexpected();
      }
      const escape = text[at + 1];
      let length = 2;
      if (escape === LOWER_U) {
        while (length < 6 && HEX[text[at + length] ?? 0] === 1) length += 1;
        if (length < 6) escapeError(at);
      } else if (ESCAPES[escape ?? 0] !== 1) escapeError(at);
      at += length;
    }
  }

  #number(): void {
    if (this.#text[this.at] === MINUS) this.at += 1;
    if (this.#text[this.at] === ZERO) this.at += 1;
    else this.#digits();
    if (this.#text[this.at] === DOT) {
      this.at += 1;
      this.#digits();
    }
    if (((this.#text[this.at] ?? 0) | 0x20) !== LOWER_E) return;
    this.at += 1;
    const sign = this.#text[this.at];
    if (sign === PLUS || sign === MINUS) this.at += 1;
    this.#digits();
  }

  /** One digit at least. */
  #digits(): void {
    const first = this.at;
    while (isDigit(this.#text[this.at])) this.at += 1;
    if (this.at === first) throw this.#unexpected();
  }

  #skipSpace(): void {
    const text = this.#text;
    let at = this.at;
    for (;;) {
      const byte = text[at];
      if (byte !== 0x20 && byte !== 0x0a && byte !== 0x0d && byte !== 0x09) break;
      at += 1;
    }
    this.at = at;
  }

  #unexpected(offset = 0): JsonError {
    const at = this.at + offset;
    return new JsonError(
      at < this.#end ? 'an unexpected character' : 'an unexpected end',
      Math.min(at, this.#end),
    );
  }
}

function isDigit(byte: number | undefined): boolean {
  return byte !== undefined && byte >= ZERO && byte <= NINE;
}

function escapeError(at: number): never {
  throw new JsonError('an invalid escape', at);
}
