import { type Filter, type Path, scalarKey, valueAt } from '../platform/expressions/index.ts';
import type { EndpointId } from '../shared/ids.ts';

/** A subscription whose filter has to look at the event. */
export interface FilteredSubscription {
  readonly endpointId: EndpointId;
  /** The error of a stored filter that no longer compiles. */
  readonly filter: Filter | { readonly error: string };
}

/** Subscriptions that compare one field of the payload with a text, number or truth value. */
interface Group {
  readonly path: Path;
  /** All of them, and by the value that they want. */
  readonly all: number[];
  readonly byValue: Map<string, number[]>;
}

/**
 * Rules out filters such as `payload.kind == "x" && …` by one look at the field, whatever their number: where the field has
 * another value they are false. Where there is no such field each is evaluated, and says so.
 */
export class EqualityIndex {
  readonly #groups: readonly Group[];
  /** Subscriptions that an equality cannot rule out. */
  readonly #others: readonly number[];

  constructor(subscriptions: readonly FilteredSubscription[]) {
    const groups = new Map<string, Group>();
    const others: number[] = [];
    for (const [at, { filter }] of subscriptions.entries()) {
      const equality = 'error' in filter ? null : (filter.cheap?.equality ?? null);
      if (equality === null) {
        others.push(at);
        continue;
      }
      const name = JSON.stringify(equality.path);
      let group = groups.get(name);
      if (group === undefined)
        groups.set(name, (group = { path: equality.path, all: [], byValue: new Map() }));
      group.all.push(at);
      const wanting = group.byValue.get(equality.key);
      if (wanting) wanting.push(at);
      else group.byValue.set(equality.key, [at]);
    }
    this.#groups = [...groups.values()];
    this.#others = others;
  }

  /** Positions of the filters that have to be evaluated on a payload. The others are false on it. */
  candidates(payload: unknown): readonly number[] {
    if (this.#groups.length === 0) return this.#others;
    const found: number[] = [...this.#others];
    for (const { path, all, byValue } of this.#groups) {
      const value = valueAt(payload, path);
      const wanting = value === undefined ? all : (byValue.get(scalarKey(value) ?? '') ?? []);
      for (const at of wanting) found.push(at);
    }
    return found;
  }
}
