import { createHash } from 'node:crypto';
import { setTimeout as pause } from 'node:timers/promises';
import type { Problem } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

export interface LoadOptions {
  /** Of one API, or of several that are asked in turn. */
  readonly urls: readonly string[];
  readonly apiKey: string;
  /** Distinguishes the events of one load from those of another: their keys and types begin with it. */
  readonly name: string;
  readonly senders: number;
  /** Whether an event that was not answered 202 is sent again, with its key, until it is. */
  readonly persistent: boolean;
  /** Between two events of a sender, so that a run has thousands of events and not hundreds of thousands. */
  readonly pauseMs?: number;
  /** Event types `<name>.0`, `<name>.1` … in turn. */
  readonly types?: number;
}

/** What became of one event that was not accepted: the refusal's code, or nothing heard. */
export type Refusal = { readonly code: string } | 'no answer';

const REQUEST_LIMIT_MS = 15_000;
const PAUSE_MS = 15;
const RETRY_PAUSE_MS = 60;
/** How long a persistent sender goes on after the load was stopped. */
const LAST_TRIES_MS = 45_000;
const MORE_LIMIT_MS = 30_000;

/** Clients that keep sending small events, each with a key of its own, whatever happens to the server. */
export class Load {
  /** Event ID by key, of all that were answered 202. */
  readonly accepted = new Map<string, string>();
  /** The last word on keys that were not, for a load that is not persistent. */
  readonly refused = new Map<string, Refusal>();
  /** How often each answer came: `202`, a problem's code, `no answer`. */
  readonly answers: Record<string, number> = {};
  /** Answers that no client should get: neither 202 nor a 503 problem with Retry-After. */
  readonly wrong: string[] = [];
  readonly #options: LoadOptions;
  readonly #running: Promise<unknown>;
  #stoppedAt = Infinity;
  #next = 0;
  #requests = 0;

  constructor(options: LoadOptions) {
    this.#options = options;
    this.#running = Promise.all(Array.from({ length: options.senders }, () => this.#send()));
  }

  get name(): string {
    return this.#options.name;
  }

  /** Ends when every event that was begun has its answer, or the last tries are over. */
  async stop(): Promise<void> {
    this.#stoppedAt = Date.now();
    await this.#running;
  }

  /** Waits until so many more events are accepted. */
  async more(count: number): Promise<void> {
    const wanted = this.accepted.size + count;
    await until(
      `${count} more events accepted`,
      () => this.accepted.size,
      (size) => size >= wanted,
      MORE_LIMIT_MS,
    );
  }

  /** The payload that belongs to a key. */
  static payloadOf(key: string): string {
    return JSON.stringify({ key, text: 'x'.repeat(100) });
  }

  static sha256Of(key: string): string {
    return createHash('sha256').update(Load.payloadOf(key)).digest('hex');
  }

  /** Sends the event of a key (again), once. @returns its event ID */
  async send(key: string): Promise<string> {
    const answer = await this.#post(key);
    if (typeof answer !== 'string') throw new Error(`${key} was answered ${JSON.stringify(answer)}`);
    this.accepted.set(key, answer);
    return answer;
  }

  async #send(): Promise<void> {
    while (this.#stoppedAt === Infinity) {
      const key = `${this.#options.name}-${this.#next++}`;
      await this.#deliver(key);
      await pause(this.#options.pauseMs ?? PAUSE_MS);
    }
  }

  async #deliver(key: string): Promise<void> {
    for (;;) {
      const answer = await this.#post(key);
      if (typeof answer === 'string') return void this.accepted.set(key, answer);
      const refusal: Refusal = answer ?? 'no answer';
      if (!this.#options.persistent) return void this.refused.set(key, refusal);
      if (Date.now() > this.#stoppedAt + LAST_TRIES_MS) return void this.refused.set(key, refusal);
      await pause(RETRY_PAUSE_MS);
    }
  }

  /** @returns the event ID, the refusal's code, or null when nothing was heard */
  async #post(key: string): Promise<string | { readonly code: string } | null> {
    const { urls, name, apiKey, types = 1 } = this.#options;
    const type = `${name}.${Number(key.slice(name.length + 1)) % types}`;
    let response: Response;
    let text: string;
    try {
      response = await fetch(`${urls[this.#requests++ % urls.length]}/v1/events`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${apiKey}`,
          'content-type': 'application/json',
          'idempotency-key': key,
        },
        body: `{"type":"${type}","payload":${Load.payloadOf(key)}}`,
        signal: AbortSignal.timeout(REQUEST_LIMIT_MS),
      });
      text = await response.text();
    } catch {
      // The process or its connection is gone: whether the event is stored is open.
      this.#count('no answer');
      return null;
    }
    if (response.status === 202) {
      this.#count('202');
      return (JSON.parse(text) as { eventId: string }).eventId;
    }
    const { code } = JSON.parse(text) as Problem;
    this.#count(code);
    if (response.status !== 503 || !(Number(response.headers.get('retry-after')) >= 1)) this.wrong.push(text);
    return { code };
  }

  #count(answer: string): void {
    this.answers[answer] = (this.answers[answer] ?? 0) + 1;
  }
}
