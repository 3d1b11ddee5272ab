/** Who waits: a share of the whole (a client's address, a tenant), and one member of it (an account). */
export interface Turn {
  readonly share: string;
  readonly member: string;
}

export interface FairQueueLimits {
  readonly maxRunning: number;
  readonly maxWaiting: number;
  readonly maxWaitingPerShare: number;
}

/** Too many wait already. */
export class QueueFull extends Error {
  constructor() {
    super('too many wait already');
    this.name = 'QueueFull';
  }
}

interface Waiting {
  readonly start: () => void;
  readonly refuse: () => void;
}

interface Share {
  readonly members: Map<string, Waiting[]>;
  waiting: number;
}

/**
 * Runs a bounded number of works at a time. Shares take turns, and so do the members of a share, each in its own order: what waits
 * before a newcomer is one work of each other share, however much one share has brought. When the queue is full, the newest work of
 * the longest share makes room for a share that has less.
 */
export class FairQueue {
  readonly #limits: FairQueueLimits;
  /** The next share is the first. */
  readonly #shares = new Map<string, Share>();
  #running = 0;
  #waiting = 0;

  constructor(limits: FairQueueLimits) {
    this.#limits = limits;
  }

  /** @throws QueueFull at once, or later when the work has to make room; whatever `work` throws */
  async run<T>(turn: Turn, work: () => Promise<T>): Promise<T> {
    if (this.#running >= this.#limits.maxRunning) await this.#turn(turn);
    else this.#running++;
    try {
      return await work();
    } finally {
      // The place goes to the next in line, or becomes free.
      const next = this.#takeNext();
      if (next) next.start();
      else this.#running--;
    }
  }

  #turn({ share: name, member }: Turn): Promise<void> {
    const waiting = this.#shares.get(name)?.waiting ?? 0;
    if (waiting >= this.#limits.maxWaitingPerShare) throw new QueueFull();
    if (this.#waiting >= this.#limits.maxWaiting) this.#makeRoom(waiting);
    const share = this.#shares.get(name) ?? { members: new Map<string, Waiting[]>(), waiting: 0 };
    this.#shares.set(name, share);
    const line = share.members.get(member) ?? [];
    share.members.set(member, line);
    return new Promise((start, reject) => {
      line.push({ start, refuse: () => reject(new QueueFull()) });
      share.waiting++;
      this.#waiting++;
    });
  }

  /** Looks at every share: as many as may wait, and only when the queue is full. */
  #makeRoom(waitingOfNewcomer: number): void {
    let longest: [string, Share] | undefined;
    for (const entry of this.#shares) if (!longest || entry[1].waiting > longest[1].waiting) longest = entry;
    if (!longest || longest[1].waiting <= waitingOfNewcomer + 1) throw new QueueFull();
    const [name, share] = longest;
    const member = [...share.members.keys()].at(-1)!;
    const line = share.members.get(member)!;
    const last = line.pop()!;
    if (line.length === 0) share.members.delete(member);
    this.#left(name, share);
    last.refuse();
  }

  #takeNext(): Waiting | undefined {
    const [name, share] = this.#shares.entries().next().value ?? [];
    if (name === undefined || share === undefined) return undefined;
    const [member, line] = share.members.entries().next().value!;
    const next = line.shift()!;
    // Behind the others, when more of it waits.
    share.members.delete(member);
    if (line.length > 0) share.members.set(member, line);
    this.#shares.delete(name);
    this.#shares.set(name, share);
    this.#left(name, share);
    return next;
  }

  #left(name: string, share: Share): void {
    share.waiting--;
    this.#waiting--;
    if (share.waiting === 0) this.#shares.delete(name);
  }
}
