import { isUtf8 } from 'node:buffer';
import type { IncomingHttpHeaders } from 'node:http';

/** How a request ended: the status, or what was done instead of an answer. */
export type Answered = number | 'dropped' | 'hung' | 'reset' | 'left' | null;

/** What one request looked like when it came. */
export interface LoggedRequest {
  readonly seq: number;
  readonly atMs: number;
  readonly method: string;
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  readonly bodyBytes: number;
  readonly sha256: string;
  /** `ok`, `unchecked`, or `failed: ` and the verifier's code. */
  readonly signature: string;
  /** null until the request has met its fate. */
  answered: Answered;
}

/** A logged request as it is shown. */
export interface ShownRequest extends Omit<LoggedRequest, 'atMs'> {
  readonly at: string;
  readonly body: string;
  readonly bodyEncoding: 'utf8' | 'base64';
  /** True when only the first part of the body was kept. */
  readonly bodyCut: boolean;
}

/** Of one body at most so much is kept; its hash covers all of it. */
const MAX_KEPT_BODY_BYTES = 262_144;
/** Of all bodies in one log at most so much is kept: older requests go first. */
const MAX_LOG_BYTES = 67_108_864;

interface Slot {
  readonly request: LoggedRequest;
  readonly kept: Buffer;
}

/** The last requests of one receiver, bounded in number and in bytes. */
export class RequestLog {
  readonly #capacity: number;
  readonly #slots: (Slot | undefined)[] = [];
  #first = 0;
  #next = 0;
  #bytes = 0;

  /** @param capacity requests kept at most; 0 keeps none */
  constructor(capacity: number) {
    this.#capacity = capacity;
  }

  get isOff(): boolean {
    return this.#capacity === 0;
  }

  get last(): ShownRequest | undefined {
    const slot = this.#next > this.#first ? this.#slots[(this.#next - 1) % this.#capacity] : undefined;
    return slot && shown(slot);
  }

  /** Only when the log is not off. The caller notes the end of the request in what it gets back. */
  add(request: Omit<LoggedRequest, 'seq' | 'answered' | 'bodyBytes'>, body: Buffer): LoggedRequest {
    const logged: LoggedRequest = { ...request, seq: this.#next, bodyBytes: body.length, answered: null };
    // A copy: the part that is kept must not hold the socket's whole read buffer.
    const kept = Buffer.from(body.subarray(0, MAX_KEPT_BODY_BYTES));
    if (this.#next - this.#first === this.#capacity) this.#dropFirst();
    this.#slots[this.#next % this.#capacity] = { request: logged, kept };
    this.#next += 1;
    this.#bytes += kept.length;
    while (this.#bytes > MAX_LOG_BYTES) this.#dropFirst();
    return logged;
  }

  /** Requests with a sequence number above `after`, oldest first. */
  page(after: number, limit: number): ShownRequest[] {
    const from = Math.max(this.#first, after + 1);
    const to = Math.min(this.#next, from + limit);
    const page: ShownRequest[] = [];
    for (let seq = from; seq < to; seq += 1) page.push(shown(this.#slots[seq % this.#capacity]!));
    return page;
  }

  #dropFirst(): void {
    const at = this.#first % this.#capacity;
    this.#bytes -= this.#slots[at]!.kept.length;
    this.#slots[at] = undefined;
    this.#first += 1;
  }
}

function shown({ request, kept }: Slot): ShownRequest {
  const { atMs, ...rest } = request;
  const bodyEncoding = isUtf8(kept) ? 'utf8' : 'base64';
  return {
    ...rest,
    at: new Date(atMs).toISOString(),
    body: kept.toString(bodyEncoding),
    bodyEncoding,
    bodyCut: kept.length < request.bodyBytes,
  };
}
