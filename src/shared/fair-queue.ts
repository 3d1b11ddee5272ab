/**
 * A queue whose keys take turns: each key has a line of its own, and the lines are served one item at a time, round
 * robin. A key with thousands of items delays a key with one by one item. The caller bounds the number of items.
 */
export class FairQueue<Key, Item> {
  /** In the order of their turns: the first is served next. A key without items is absent. */
  readonly #lines = new Map<Key, Line<Item>>();
  #size = 0;

  get size(): number {
    return this.#size;
  }

  /** Items of one key. */
  sizeOf(key: Key): number {
    return this.#lines.get(key)?.length ?? 0;
  }

  push(key: Key, item: Item): void {
    let line = this.#lines.get(key);
    if (line === undefined) this.#lines.set(key, (line = new Line()));
    line.push(item);
    this.#size += 1;
  }

  /** The item that `shift` would take, or undefined. */
  peek(): Item | undefined {
    for (const line of this.#lines.values()) return line.first();
    return undefined;
  }

  /** Takes the next item; its key goes behind all others. */
  shift(): Item | undefined {
    return this.shiftWhere(() => true);
  }

  /** Takes the first item, in the order of turns, that `fits`; its key goes behind all others. Looks at one item a key. */
  shiftWhere(fits: (key: Key, item: Item) => boolean): Item | undefined {
    for (const [key, line] of this.#lines) {
      if (!fits(key, line.first()!)) continue;
      const item = line.shift();
      this.#size -= 1;
      this.#lines.delete(key);
      if (line.length > 0) this.#lines.set(key, line);
      return item;
    }
    return undefined;
  }
}

/** First in, first out. `shift` is cheap however long it is, which an array's is not. */
class Line<Item> {
  #items: Item[] = [];
  #first = 0;

  get length(): number {
    return this.#items.length - this.#first;
  }

  first(): Item | undefined {
    return this.#items[this.#first];
  }

  push(item: Item): void {
    this.#items.push(item);
  }

  shift(): Item | undefined {
    const item = this.#items[this.#first];
    this.#first += 1;
    if (this.#first >= 64 && this.#first * 2 >= this.#items.length) {
      this.#items = this.#items.slice(this.#first);
      this.#first = 0;
    }
    return item;
  }
}
