import { Receiver, type ReceiverOptions } from './receiver.ts';

const NAME = /^[A-Za-z0-9._-]{1,64}$/;

/** All receivers of a simulator, made when they are first named. */
export class Receivers {
  readonly #options: ReceiverOptions;
  readonly #byName = new Map<string, Receiver>();
  readonly #max: number;

  /** @param max receivers at most, so that a client which invents names cannot take the memory */
  constructor(options: ReceiverOptions, max: number) {
    this.#options = options;
    this.#max = max;
  }

  /** The receiver of that name; undefined for a name that is none, or when there are too many. */
  named(name: string): Receiver | undefined {
    const known = this.#byName.get(name);
    if (known) return known;
    if (!NAME.test(name) || this.#byName.size >= this.#max) return undefined;
    const made = new Receiver(name, this.#options);
    this.#byName.set(name, made);
    return made;
  }

  all(): Receiver[] {
    return [...this.#byName.values()];
  }
}
