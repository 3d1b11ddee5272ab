/**
 * A bounded number of slots that shares (tenants) take in turns, with a bounded queue behind them. A share gets a further slot, or
 * place in the queue, while it holds fewer than are free: alone it gets half, two get a third each, n get 1/(n + 1). So there is
 * always room for a share that holds nothing yet, until there are as many busy shares as slots (Choudhury and Hahne, "Dynamic
 * Queue Length Thresholds", 1998).
 */
export class FairSlots<T extends object> {
  readonly #limit: number;
  readonly #maxWaiting: number;
  readonly #start: (item: T, share: string) => void;
  readonly #running = new Map<string, number>();
  /** By share, the one whose turn is next first. Holds no empty set. */
  readonly #queues = new Map<string, Set<T>>();
  #runningCount = 0;
  #waitingCount = 0;

  /** @param start called for an item that got a slot, which `release` gives back */
  constructor(limit: number, maxWaiting: number, start: (item: T, share: string) => void) {
    this.#limit = limit;
    this.#maxWaiting = maxWaiting;
    this.#start = start;
  }

  get waiting(): number {
    return this.#waitingCount;
  }

  /** Starts the item at once, or lets it wait for its share's turn. An item may wait under several shares. */
  enter(item: T, share: string): 'started' | 'waiting' | 'refused' {
    if (!this.#queues.has(share) && this.#hasRoom(share)) {
      this.#run(item, share);
      return 'started';
    }
    const queue = this.#queues.get(share);
    if (queue?.has(item)) return 'waiting';
    if ((queue?.size ?? 0) >= this.#maxWaiting - this.#waitingCount) return 'refused';
    if (queue) queue.add(item);
    else this.#queues.set(share, new Set([item]));
    this.#waitingCount += 1;
    return 'waiting';
  }

  /** The item no longer waits under this share. */
  withdraw(item: T, share: string): void {
    const queue = this.#queues.get(share);
    if (!queue?.delete(item)) return;
    this.#waitingCount -= 1;
    if (queue.size === 0) this.#queues.delete(share);
  }

  /** An item that was started under this share has ended. */
  release(share: string): void {
    this.#runningCount -= 1;
    const left = (this.#running.get(share) ?? 1) - 1;
    if (left === 0) this.#running.delete(share);
    else this.#running.set(share, left);
    while (this.#startNext());
  }

  #hasRoom(share: string): boolean {
    return (this.#running.get(share) ?? 0) < this.#limit - this.#runningCount;
  }

  #run(item: T, share: string): void {
    this.#runningCount += 1;
    this.#running.set(share, (this.#running.get(share) ?? 0) + 1);
    this.#start(item, share);
  }

  /** The first share that has room gets one, and goes to the end of the line. */
  #startNext(): boolean {
    for (const [share, queue] of this.#queues) {
      if (!this.#hasRoom(share)) continue;
      const [item] = queue;
      this.withdraw(item!, share);
      if (this.#queues.delete(share)) this.#queues.set(share, queue);
      this.#run(item!, share);
      return true;
    }
    return false;
  }
}
