/**
 * - opening: not connected yet; whoever asks waits, for a short time
 * - shared: Redis decides
 * - local: Redis is away; this process' share of each limit decides
 */
export type Mode = 'opening' | 'shared' | 'local' | 'closed';

export interface AvailabilityDeps {
  readonly timeoutMs: number;
  readonly leaseMs: number;
  readonly isConnected: () => boolean;
  /** Tells Redis all it has to know of this process; calls `arrived` in the same step in which that is complete. */
  readonly introduce: (arrived: () => void) => Promise<void>;
  /** Renews the lease. */
  readonly beat: () => Promise<void>;
  readonly onDegraded: (isDegraded: boolean, reason: string) => void;
  readonly onError: (error: unknown) => void;
}

/** Of the time-out: what a process waits for its first connection before it goes on alone. */
const OPENING_TIMEOUTS = 4;
/** Heartbeats in one lease: two may be lost. */
const BEATS_PER_LEASE = 3;
const FIRST_RETRY_MS = 100;
const LONGEST_RETRY_MS = 2_000;

/** Whether Redis or this process alone decides: over to local at the first failure, back when Redis answers and knows what is held. */
export class Availability {
  readonly #deps: AvailabilityDeps;
  readonly #opened = Promise.withResolvers<void>();
  #mode: Mode = 'opening';
  #timer: NodeJS.Timeout;
  #isReturning = false;
  #retryMs = FIRST_RETRY_MS;

  constructor(deps: AvailabilityDeps) {
    this.#deps = deps;
    const openingMs = OPENING_TIMEOUTS * deps.timeoutMs;
    this.#timer = setTimeout(() => this.#degrade(`no connection within ${openingMs} ms`), openingMs);
  }

  get mode(): Mode {
    return this.#mode;
  }

  /** Returns when it is known who decides: at once, but for the first moment. */
  async known(): Promise<void> {
    if (this.#mode === 'opening') await this.#opened.promise;
  }

  /** Connected: the first time, or after a loss that perhaps no command noticed, to a server that may know nothing. */
  connected(): void {
    if (this.#mode === 'shared') void this.#beat();
    else this.#return();
  }

  /** A command failed. */
  failed(error: unknown): void {
    if (this.#mode !== 'shared') return;
    this.#deps.onError(error);
    this.#degrade(reasonOf(error));
  }

  connectionFailed(error: Error): void {
    this.#deps.onError(error);
    // One node of a cluster, or a connection that may be back at once: the commands that it fails say what that means.
    if (this.#deps.isConnected()) return;
    if (this.#mode === 'opening' || this.#mode === 'shared') this.#degrade(error.message);
  }

  close(): void {
    this.#mode = 'closed';
    clearTimeout(this.#timer);
    this.#opened.resolve();
  }

  #degrade(reason: string): void {
    this.#mode = 'local';
    this.#opened.resolve();
    this.#deps.onDegraded(true, reason);
    this.#returnLater();
  }

  #returnLater(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => this.#return(), this.#retryMs);
    this.#retryMs = Math.min(LONGEST_RETRY_MS, this.#retryMs * 2);
  }

  #return(): void {
    if (this.#mode === 'closed' || this.#mode === 'shared' || this.#isReturning) return;
    this.#isReturning = true;
    this.#deps
      .introduce(() => this.#returned())
      .catch((error: unknown) => this.#notReturned(error))
      .finally(() => (this.#isReturning = false));
  }

  #returned(): void {
    if (this.#mode === 'closed') return;
    const wasLocal = this.#mode === 'local';
    this.#mode = 'shared';
    this.#opened.resolve();
    if (wasLocal) this.#deps.onDegraded(false, 'Redis answers');
    this.#beatLater();
  }

  #notReturned(error: unknown): void {
    if (this.#mode === 'local') this.#returnLater();
    if (this.#mode !== 'opening') return;
    this.#deps.onError(error);
    this.#degrade(reasonOf(error));
  }

  async #beat(): Promise<void> {
    try {
      await this.#deps.beat();
      this.#retryMs = FIRST_RETRY_MS;
    } catch (error) {
      this.failed(error);
    }
    if (this.#mode === 'shared') this.#beatLater();
  }

  #beatLater(): void {
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.#beat(), this.#deps.leaseMs / BEATS_PER_LEASE);
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error);
}
