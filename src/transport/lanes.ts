import type { EndpointId } from '../shared/ids.ts';

/**
 * How far below the last claim's earliest due time the next claim starts. Rows of concurrent transactions commit out of order of
 * their due time by about as long as a group commit takes; what is later still is found by the sweep.
 */
const FLOOR_MARGIN_MS = 100;

/** How much later than its due time a transaction may commit and still be found by the next quick sweep. */
const LATE_COMMIT_MS = 2_000;

/** What this process knows of one endpoint's work. Everything here is a guess that the sweep corrects; nothing depends on it. */
interface Lane {
  /** Due work may be there. */
  ready: boolean;
  /** Local time before which asking is useless: the endpoint's bucket is empty. */
  blockedUntilMs: number;
  /** Local time of the next known due work, or Infinity. */
  nextDueMs: number;
  /** Where the next claim starts, database time; null until something is known. */
  floorMs: number | null;
  /** Earliest due time that a sweep saw since the last claim began: it may lie below what that claim brings. */
  sweptMs: number;
  /** Work lies in the future whose time is not known exactly. */
  probe: boolean;
}

/** The endpoints with work, in a ring, so that each gets its turn. Those that have none left are kept in mind, a few hundred bytes each. */
export class Lanes {
  readonly #lanes = new Map<EndpointId, Lane>();
  readonly #ready = new Set<EndpointId>();
  #earliestMs = Infinity;

  /** Work is due now, or in some milliseconds. */
  note(endpointId: EndpointId, inMs: number, nowMs: number): void {
    const lane = this.#laneOf(endpointId);
    if (inMs <= 0) this.#setReady(endpointId, lane, true);
    else {
      lane.nextDueMs = Math.min(lane.nextDueMs, nowMs + inMs);
      lane.probe = true;
      this.#earliestMs = Math.min(this.#earliestMs, lane.nextDueMs);
    }
  }

  /** As `note`, from the sweep, which saw the endpoint's very first row. */
  noteSwept(endpointId: EndpointId, dueMs: number, inMs: number, nowMs: number): void {
    this.note(endpointId, inMs, nowMs);
    const lane = this.#laneOf(endpointId);
    lane.sweptMs = Math.min(lane.sweptMs, dueMs);
  }

  isReady(endpointId: EndpointId): boolean {
    return this.#ready.has(endpointId);
  }

  /** How many endpoints could be asked for. */
  get readyCount(): number {
    return this.#ready.size;
  }

  /** Endpoints to ask for now, each at most once, in the order in which they had to wait. */
  ready(nowMs: number, limit: number): EndpointId[] {
    this.promote(nowMs);
    const found: EndpointId[] = [];
    for (const endpointId of this.#ready) {
      const lane = this.#lanes.get(endpointId);
      if (lane === undefined || lane.blockedUntilMs > nowMs) continue;
      found.push(endpointId);
      if (found.length >= limit) break;
    }
    return found;
  }

  floorOf(endpointId: EndpointId): number {
    return this.#lanes.get(endpointId)?.floorMs ?? 0;
  }

  /** All endpoints that are known, with a floor low enough to see what committed late. */
  floors(): { endpointId: EndpointId; floorMs: number }[] {
    return Array.from(this.#lanes, ([endpointId, { floorMs }]) => ({
      endpointId,
      floorMs: Math.max(0, (floorMs ?? 0) - LATE_COMMIT_MS),
    }));
  }

  /** Puts an endpoint behind all others: it was served, or could not be. */
  rotate(endpointId: EndpointId): void {
    if (this.#ready.delete(endpointId)) this.#ready.add(endpointId);
  }

  block(endpointId: EndpointId, untilMs: number): void {
    this.#laneOf(endpointId).blockedUntilMs = untilMs;
  }

  /** A claim starts: what is told of from here on may not be in its snapshot. */
  claiming(endpointId: EndpointId): void {
    const lane = this.#laneOf(endpointId);
    if (lane.sweptMs < Infinity)
      lane.floorMs = Math.min(lane.floorMs ?? Infinity, lane.sweptMs - FLOOR_MARGIN_MS);
    lane.sweptMs = Infinity;
    this.#setReady(endpointId, lane, false);
  }

  /** A claim came back. As many rows as asked for: more may be due. */
  claimed(endpointId: EndpointId, firstDueMs: number | undefined, full: boolean): void {
    const lane = this.#laneOf(endpointId);
    if (firstDueMs !== undefined) lane.floorMs = firstDueMs - FLOOR_MARGIN_MS;
    if (full) this.#setReady(endpointId, lane, true);
  }

  /** The endpoint takes no deliveries (paused, disabled, deleted): leave it until somebody tells of it again. Its floor stays true. */
  setAside(endpointId: EndpointId): void {
    const lane = this.#laneOf(endpointId);
    lane.nextDueMs = Infinity;
    lane.probe = false;
    this.#setReady(endpointId, lane, false);
  }

  /** Idle endpoints whose next due time is not known exactly; asking clears the mark. */
  takeProbes(limit: number): EndpointId[] {
    const found: EndpointId[] = [];
    for (const [endpointId, lane] of this.#lanes) {
      if (!lane.probe || lane.ready || lane.nextDueMs !== Infinity) continue;
      lane.probe = false;
      found.push(endpointId);
      if (found.length >= limit) break;
    }
    return found;
  }

  /** Milliseconds until a lane can be asked by the passing of time alone; not counting those that wait for a slot. */
  msUntilReady(nowMs: number): number {
    let earliest = this.#earliestMs;
    for (const endpointId of this.#ready) {
      const until = this.#lanes.get(endpointId)?.blockedUntilMs ?? 0;
      if (until > nowMs) earliest = Math.min(earliest, until);
    }
    return Math.max(0, earliest - nowMs);
  }

  /** Makes those ready whose known due time has come. */
  promote(nowMs: number): void {
    if (nowMs < this.#earliestMs) return;
    this.#earliestMs = Infinity;
    for (const [endpointId, lane] of this.#lanes) {
      if (lane.nextDueMs <= nowMs) {
        lane.nextDueMs = Infinity;
        lane.probe = true;
        this.#setReady(endpointId, lane, true);
      } else this.#earliestMs = Math.min(this.#earliestMs, lane.nextDueMs);
    }
  }

  #laneOf(endpointId: EndpointId): Lane {
    let lane = this.#lanes.get(endpointId);
    if (lane === undefined) {
      lane = {
        ready: false,
        blockedUntilMs: 0,
        nextDueMs: Infinity,
        floorMs: null,
        sweptMs: Infinity,
        probe: false,
      };
      this.#lanes.set(endpointId, lane);
    }
    return lane;
  }

  #setReady(endpointId: EndpointId, lane: Lane, ready: boolean): void {
    lane.ready = ready;
    if (ready) this.#ready.add(endpointId);
    else this.#ready.delete(endpointId);
  }
}
