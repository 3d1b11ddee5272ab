/** A part of a process that is started and stopped. Stopping is idempotent and ends within the deadline. */
export interface Part {
  readonly name: string;
  start?(): Promise<void> | void;
  stop?(deadline: AbortSignal): Promise<void> | void;
  /** How long after the deadline this part may still take; when absent STOP_GRACE_MS, or LATE_GRACE_MS when its turn comes after it. */
  readonly graceMs?: number;
}

/** What a part gets after the deadline to end what the deadline cut off. Then the stop goes on without it. */
const STOP_GRACE_MS = 2_000;
/** The same for a part whose turn comes after the deadline: several that cannot reach a server must not add up. */
const LATE_GRACE_MS = 250;

/**
 * Starts parts in the order in which they were added and stops them in reverse, so that nothing stops before what uses it. When a
 * start fails, what was started is stopped again.
 */
export class Lifecycle {
  readonly #groups: (readonly Part[])[] = [];
  readonly #started: Part[][] = [];
  readonly #onError: (error: unknown, part: string) => void;
  #stopping: Promise<void> | undefined;

  constructor(onError: (error: unknown, part: string) => void) {
    this.#onError = onError;
  }

  /** Parts of one call are started one after the other and stopped side by side. */
  add(...parts: Part[]): void {
    this.#groups.push(parts);
  }

  async start(): Promise<void> {
    for (const group of this.#groups) {
      const started: Part[] = [];
      this.#started.push(started);
      for (const part of group) {
        started.push(part);
        await this.#startOne(part);
      }
    }
  }

  /** Every part gets its chance to stop, whatever the others do. One that hangs is reported and left behind. */
  stop(deadline: AbortSignal): Promise<void> {
    this.#stopping ??= this.#stopAll(deadline);
    return this.#stopping;
  }

  async #startOne(part: Part): Promise<void> {
    try {
      await part.start?.();
    } catch (error) {
      await this.stop(AbortSignal.timeout(5_000));
      throw new Error(`${part.name} could not be started`, { cause: error });
    }
  }

  async #stopAll(deadline: AbortSignal): Promise<void> {
    for (const group of this.#started.splice(0).reverse())
      await Promise.all(group.map((part) => this.#stopOne(part, deadline)));
  }

  async #stopOne(part: Part, deadline: AbortSignal): Promise<void> {
    const overdue = whenOverdue(deadline, part.graceMs ?? (deadline.aborted ? LATE_GRACE_MS : STOP_GRACE_MS));
    try {
      await Promise.race([part.stop?.(deadline), overdue.passed]);
    } catch (error) {
      this.#onError(error, part.name);
    } finally {
      overdue.forget();
    }
  }
}

/** Rejects `graceMs` after the deadline; a deadline that has passed already counts from now. */
function whenOverdue(
  deadline: AbortSignal,
  graceMs: number,
): { readonly passed: Promise<never>; readonly forget: () => void } {
  const { promise, reject } = Promise.withResolvers<never>();
  let timer: NodeJS.Timeout | undefined;
  const begin = (): void => {
    timer = setTimeout(() => reject(new Error(`has not stopped ${graceMs} ms after the deadline`)), graceMs);
  };
  if (deadline.aborted) begin();
  else deadline.addEventListener('abort', begin, { once: true });
  const forget = (): void => {
    deadline.removeEventListener('abort', begin);
    clearTimeout(timer);
  };
  return { passed: promise, forget };
}
