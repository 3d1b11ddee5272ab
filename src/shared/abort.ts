import { setTimeout as delay } from 'node:timers/promises';

/** Waits `ms`, or less when the signal aborts. Never rejects: the caller looks at the signal. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return;
  await delay(ms, undefined, signal ? { signal } : {}).catch((error: unknown) => {
    if (!(error instanceof Error) || error.name !== 'AbortError') throw error;
  });
}

/** Waits for `work`, for `ms` at most, and leaves no timer behind. @throws what `work` throws within that time */
export async function within(ms: number, work: Promise<unknown>): Promise<void> {
  const limit = new AbortController();
  try {
    await Promise.race([work, sleep(ms, limit.signal)]);
  } finally {
    limit.abort();
  }
}

/** A wake-up that many may ring and one waits for. A ring while nobody waits is kept, so that none is lost. */
export class Wakeup {
  #rung = false;
  #waiter: (() => void) | undefined;

  ring(): void {
    this.#rung = true;
    this.#waiter?.();
  }

  /** Resolves at the next ring (at once when one is kept), after `timeoutMs`, or when the signal aborts. */
  async wait(timeoutMs: number, signal: AbortSignal): Promise<void> {
    if (!this.#rung && !signal.aborted) {
      await new Promise<void>((resolve) => {
        const done = (): void => {
          clearTimeout(timer);
          signal.removeEventListener('abort', done);
          resolve();
        };
        const timer = setTimeout(done, timeoutMs);
        this.#waiter = done;
        signal.addEventListener('abort', done, { once: true });
      });
      this.#waiter = undefined;
    }
    this.#rung = false;
  }
}
