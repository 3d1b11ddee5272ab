import type { Dispatcher } from 'undici';
import { decompress } from './decompress.ts';
import {
  abortedOutcome,
  deferredOutcome,
  failureOf,
  lookupTimeoutOutcome,
  type SendOutcome,
  timeoutOutcome,
} from './send-outcome.ts';
import type { Line, LinedUp, OriginPool } from './socket-client.ts';

export interface OutgoingRequest {
  readonly url: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: Buffer;
  /** Covers look-up, connect, headers and body together. */
  readonly timeoutMs: number;
  /** The tenant. Limits of look-ups are kept by share. */
  readonly share: string;
}

/** One request and its answer: collects a bounded body under one deadline, and reports exactly once. */
export class Exchange implements Dispatcher.DispatchHandler, LinedUp {
  /** Its index among those that are open. */
  place = -1;
  readonly share: string;
  line: Line | undefined;
  pool: OriginPool | undefined;
  readonly #limit: number;
  readonly #report: (outcome: SendOutcome) => void;
  readonly #timer: NodeJS.Timeout;
  #controller: Dispatcher.DispatchController | undefined;
  #isStarted = false;
  #done = false;
  #status = 0;
  #headers: Readonly<Record<string, string>> = {};
  #chunks: Buffer[] = [];
  #bytes = 0;

  constructor({ timeoutMs, share }: OutgoingRequest, limit: number, report: (outcome: SendOutcome) => void) {
    this.share = share;
    this.#limit = limit;
    this.#report = report;
    this.#timer = setTimeout(() => this.#end(this.#lateOutcome(timeoutMs)), timeoutMs);
  }

  abort(): void {
    this.#end(this.#isStarted ? abortedOutcome : deferredOutcome('We stopped before anything was sent.'));
  }

  onRequestStart(controller: Dispatcher.DispatchController): void {
    this.#controller = controller;
    this.#isStarted = true;
    this.#leaveLine();
    // It waited in the pool's queue beyond its deadline: nothing may be sent any more.
    if (this.#done) controller.abort(new Error('ended before it started'));
  }

  onResponseStart(
    _controller: Dispatcher.DispatchController,
    status: number,
    headers: Record<string, string | string[] | undefined>,
  ): void {
    if (status < 200) return;
    this.#status = status;
    this.#headers = flatten(headers);
  }

  onResponseData(_controller: Dispatcher.DispatchController, chunk: Buffer): void {
    if (this.#done) return;
    this.#bytes += chunk.length;
    this.#chunks.push(chunk);
    if (this.#bytes > this.#limit) void this.#answer(true);
  }

  onResponseEnd(): void {
    void this.#answer(false);
  }

  onResponseError(_controller: Dispatcher.DispatchController | undefined, error: Error): void {
    this.#end(failureOf(error, this.#isStarted));
  }

  /** Time in a queue of ours is not the receiver's fault: what was not sent by then is deferred. */
  #lateOutcome(timeoutMs: number): SendOutcome {
    const { line, pool } = this;
    if (this.#isStarted) return timeoutOutcome(timeoutMs, this.#status);
    if (line?.hasQueued === true) return deferredOutcome('The look-up of the name waited for others.');
    if (line?.pendingName !== undefined) return lookupTimeoutOutcome(timeoutMs);
    if (line?.isConnecting !== true && pool?.isConnected === true)
      return deferredOutcome('All sockets of the origin were in use by other requests.');
    return timeoutOutcome(timeoutMs, this.#status);
  }

  #leaveLine(): void {
    const { line } = this;
    this.line = undefined;
    line?.leave();
  }

  async #answer(truncated: boolean): Promise<void> {
    if (this.#done) return;
    this.#settle();
    if (truncated) this.#controller?.abort(new Error('response body over the limit'));
    const raw = Buffer.concat(this.#chunks);
    const decoded = await decompress(this.#headers['content-encoding'], raw, this.#limit);
    this.#report({
      kind: 'response',
      status: this.#status,
      headers: this.#headers,
      body: decoded.body.subarray(0, this.#limit),
      truncated: truncated || decoded.truncated,
    });
  }

  #end(outcome: SendOutcome): void {
    if (this.#done) return;
    this.#settle();
    this.#report(outcome);
    this.#controller?.abort(new Error(outcome.kind));
  }

  #settle(): void {
    this.#done = true;
    clearTimeout(this.#timer);
    this.#leaveLine();
  }
}

function flatten(headers: Record<string, string | string[] | undefined>): Record<string, string> {
  const flat: Record<string, string> = {};
  for (const [name, value] of Object.entries(headers)) {
    if (value !== undefined) flat[name] = Array.isArray(value) ? value.join(', ') : value;
  }
  return flat;
}
