/** A part of a process that is started and stopped. Stopping is idempotent and ends within the deadline. */
export interface Part {
  readonly name: string;
  start?(): Promise<void> | void;
  stop?(deadline: AbortSignal): Promise<void> | void;
}

/**
 * Starts parts in the order in which they were added and stops them in reverse, so that nothing stops before what uses it. When a
 * start fails, what was started is stopped again.
 */
export class Lifecycle {
  readonly #parts: Part[] = [];
  readonly #started: Part[] = [];
  readonly #onError: (error: unknown, part: string) => void;
  #stopping: Promise<void> | undefined;

  constructor(onError: (error: unknown, part: string) => void) {
    this.#onError = onError;
  }

  add(part: Part): void {
    this.#parts.push(part);
  }

  async start(): Promise<void> {
    for (const part of this.#parts) {
      this.#started.push(part);
      try {
        await part.start?.();
      } catch (error) {
        await this.stop(AbortSignal.timeout(5_000));
        throw new Error(`${part.name} could not be started`, { cause: error });
      }
    }
  }

  /** Every part gets its chance to stop, whatever the others do. */
  stop(deadline: AbortSignal): Promise<void> {
    this.#stopping ??= this.#stopAll(deadline);
    return this.#stopping;
  }

  async #stopAll(deadline: AbortSignal): Promise<void> {
    for (const part of this.#started.splice(0).reverse()) {
      try {
        await part.stop?.(deadline);
      } catch (error) {
        this.#onError(error, part.name);
      }
    }
  }
}
