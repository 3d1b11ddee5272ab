import type { EndpointId } from '../../shared/ids.ts';

interface Spare {
  count: number;
  /** Until then slots of this endpoint may be used again without asking. */
  readonly untilMs: number;
}

/**
 * Slots that this process has, does not need now, and is about to need again: in a steady flow a slot is given back and asked for every few milliseconds.
 * They stay counted as this process's, so the limit holds over all. From the first grant on an endpoint's slots may be used again for
 * `reuseMs`; then they are given back, so that others get their turn.
 */
export class SpareSlots {
  readonly #spare = new Map<EndpointId, Spare>();
  readonly #reuseMs: number;

  constructor(reuseMs: number) {
    this.#reuseMs = reuseMs;
  }

  countOf(endpointId: EndpointId): number {
    return this.#spare.get(endpointId)?.count ?? 0;
  }

  /** Redis granted slots: a time of reuse begins, when none is running. */
  granted(endpointId: EndpointId, nowMs: number): void {
    const spare = this.#spare.get(endpointId);
    if (spare === undefined || (spare.untilMs <= nowMs && spare.count === 0))
      this.#spare.set(endpointId, { count: 0, untilMs: nowMs + this.#reuseMs });
  }

  /** @returns whether the slots were kept; otherwise they have to be given back */
  keep(endpointId: EndpointId, count: number, nowMs: number): boolean {
    const spare = this.#spare.get(endpointId);
    if (spare === undefined || spare.untilMs <= nowMs) return false;
    spare.count += count;
    return true;
  }

  /** Up to `wanted` kept slots. */
  take(endpointId: EndpointId, wanted: number, nowMs: number): number {
    const spare = this.#spare.get(endpointId);
    if (spare === undefined || spare.untilMs <= nowMs) return 0;
    const count = Math.min(wanted, spare.count);
    spare.count -= count;
    return count;
  }

  /** What has been kept for its time and is to be given back. */
  *expired(nowMs: number): Iterable<{ endpointId: EndpointId; count: number }> {
    for (const [endpointId, { count, untilMs }] of this.#spare) {
      if (untilMs > nowMs) continue;
      this.#spare.delete(endpointId);
      if (count > 0) yield { endpointId, count };
    }
  }

  /** All endpoints of which slots are kept. */
  get endpoints(): EndpointId[] {
    return [...this.#spare].filter(([, { count }]) => count > 0).map(([endpointId]) => endpointId);
  }

  clear(): void {
    this.#spare.clear();
  }
}
