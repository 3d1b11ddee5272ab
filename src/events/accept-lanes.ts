import type { TenantId } from '../shared/ids.ts';
import { TurnQueue } from '../shared/turn-queue.ts';

/** What one group commit writes at most. */
export interface GroupBounds {
  readonly maxEvents: number;
  readonly maxBytes: number;
  readonly maxDeliveries: number;
}

/** An event that waits for its group, with what it adds to it. */
export interface Laned {
  readonly tenantId: TenantId;
  readonly bytes: number;
  readonly deliveryCount: number;
}

/** An event with more deliveries than this share of a group waits in the lane of the heavy ones. */
const HEAVY_SHARE = 0.1;

/**
 * Groups of events, one after the other: what arrives while one is being written makes the next. Tenants take turns inside a
 * lane. There are two, because an event to thousands of endpoints is one statement that cannot be split: the light ones do
 * not wait for it.
 */
export class AcceptLanes<Item extends Laned> {
  readonly #bounds: GroupBounds;
  readonly #settle: (group: Item[]) => Promise<void>;
  readonly #light: Lane<Item> = { waiting: new TurnQueue(), running: undefined };
  readonly #heavy: Lane<Item> = { waiting: new TurnQueue(), running: undefined };

  /** @param settle writes a group and answers everyone in it; never rejects */
  constructor(bounds: GroupBounds, settle: (group: Item[]) => Promise<void>) {
    this.#bounds = bounds;
    this.#settle = settle;
  }

  push(item: Item): void {
    const isHeavy = item.deliveryCount > this.#bounds.maxDeliveries * HEAVY_SHARE;
    const lane = isHeavy ? this.#heavy : this.#light;
    lane.waiting.push(item.tenantId, item);
    lane.running ??= new Promise<void>((resolve) => setImmediate(resolve)).then(() => this.#drain(lane));
  }

  /** Resolves when both lanes are empty. */
  async idle(): Promise<void> {
    while (this.#light.running || this.#heavy.running)
      await Promise.all([this.#light.running, this.#heavy.running]);
  }

  async #drain(lane: Lane<Item>): Promise<void> {
    while (lane.waiting.size > 0) await this.#settle(this.#takeGroup(lane.waiting));
    lane.running = undefined;
  }

  /** One event at least, whatever it adds. */
  #takeGroup(waiting: TurnQueue<TenantId, Item>): Item[] {
    const { maxEvents, maxBytes, maxDeliveries } = this.#bounds;
    const group: Item[] = [];
    let bytes = 0;
    let deliveries = 0;
    for (let next = waiting.peek(); next && group.length < maxEvents; next = waiting.peek()) {
      bytes += next.bytes;
      deliveries += next.deliveryCount;
      if (group.length > 0 && (bytes > maxBytes || deliveries > maxDeliveries)) break;
      group.push(waiting.shift()!);
    }
    return group;
  }
}

interface Lane<Item> {
  readonly waiting: TurnQueue<TenantId, Item>;
  running: Promise<void> | undefined;
}
