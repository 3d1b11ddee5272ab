/** Sends one acknowledgement; `multiple` covers every tag below it as well. */
export type SendAck = (tag: number, multiple: boolean) => void;

/**
 * The delivery tags of one channel, which rise by one. Messages end in any order; what is done up to the oldest open one is acknowledged by one
 * frame, what lies beyond by one each, so that a slow message holds up nobody.
 */
export class Acknowledgements {
  readonly #send: SendAck;
  /** The lowest tag that is not done. */
  #lowest = 1;
  readonly #done = new Set<number>();

  constructor(send: SendAck) {
    this.#send = send;
  }

  /** @param tags not acknowledged yet, each once */
  settle(tags: readonly number[]): void {
    for (const tag of tags) this.#done.add(tag);
    const before = this.#lowest;
    while (this.#done.delete(this.#lowest)) this.#lowest += 1;
    // The broker knows only tags that are open: the one that covers others must be one of these.
    let covering = 0;
    if (this.#lowest > before)
      for (const tag of tags) if (tag < this.#lowest) covering = Math.max(covering, tag);
    if (covering > 0) this.#send(covering, true);
    for (const tag of tags) if (tag > covering) this.#send(tag, false);
  }
}
