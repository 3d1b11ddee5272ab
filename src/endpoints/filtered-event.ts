import {
  type FilterScope,
  isSlowToParse,
  MAX_FILTERED_BYTES,
  payloadOf,
} from '../platform/expressions/index.ts';

/** An event as filters see it. Its payload is parsed when a filter looks into it, and once. */
export class FilteredEvent {
  readonly event: FilterScope['event'];
  readonly #payload: Buffer;
  #text: string | null | undefined;
  #scope: FilterScope | undefined;

  constructor(event: FilterScope['event'], payload: Buffer) {
    this.event = event;
    this.#payload = payload;
  }

  /** The payload as text; null when it is too large to be looked into. */
  get text(): string | null {
    if (this.#text === undefined)
      this.#text = this.#payload.length > MAX_FILTERED_BYTES ? null : this.#payload.toString('utf8');
    return this.#text;
  }

  /** Whether parsing it would hold the event loop for more than a moment. */
  get isDearToParse(): boolean {
    return this.text !== null && isSlowToParse(this.text);
  }

  get scope(): FilterScope {
    return (this.#scope ??= { event: this.event, payload: payloadOf(this.text) });
  }
}
