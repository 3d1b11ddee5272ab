import type { Config } from '../config/index.ts';
import { findNextDue, type Lane, sweepFromFloors, sweepLanes } from '../delivery/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { Clock } from '../shared/clock.ts';
import { Pace } from '../shared/pace.ts';
import type { Lanes } from './lanes.ts';

export interface SweeperDeps {
  readonly lanes: Lanes;
  readonly database: Database;
  readonly config: Config;
  readonly clock: Clock;
  /** Work that becomes due later than this many milliseconds is not kept in mind here: something else brings it. Default: no limit. */
  readonly horizonMs?: number;
  /** Whether work that a sweep found is to be claimed here; by default all is. */
  readonly takesSwept?: (lane: Lane) => boolean;
  /** Everything that a full sweep found. */
  readonly onSwept: (lanes: readonly Lane[]) => Promise<void>;
  /** A sweep has ended. */
  readonly onChange: () => void;
  readonly onError: (error: unknown, what: string) => void;
}

const SWEEP_BATCH = 1_000;
const PROBE_BATCH = 200;
const PROBE_MS = 100;

/** Tells the lanes of work that nobody told of: late commits, expired leases, retries that become due, other processes' work. */
export class Sweeper {
  readonly #deps: SweeperDeps;
  readonly #fullSweepPace: Pace;
  #sweepAtMs = 0;
  #fullSweepAtMs = 0;
  #isSweeping = false;
  #sweeping: Promise<void> = Promise.resolve();
  #probeAtMs = 0;

  constructor(deps: SweeperDeps) {
    this.#deps = deps;
    // Expired leases are found within one more lease time.
    this.#fullSweepPace = new Pace(deps.config['delivery.sweepMs'], deps.config['delivery.leaseMs']);
  }

  /** Starts a sweep when it is time, beside the claims, and learns the next due times of endpoints that wait. */
  async turn(): Promise<void> {
    if (!this.#isSweeping && this.#deps.clock.now() >= this.#sweepAtMs) this.#startSweep();
    if (this.#deps.clock.now() >= this.#probeAtMs) await this.#probe();
  }

  /** Looks at everything as soon as it can. */
  soon(): void {
    this.#fullSweepAtMs = this.#sweepAtMs = 0;
  }

  /** Milliseconds until the next turn has something to do. */
  msUntilTurn(now: number): number {
    return Math.min(this.#sweepAtMs, this.#probeAtMs) - now;
  }

  async close(): Promise<void> {
    await this.#sweeping;
  }

  /** Asks for the next due time of endpoints that have work in the future, so that retries start on time and not at the next sweep. */
  async #probe(): Promise<void> {
    const { clock, database } = this.#deps;
    this.#probeAtMs = clock.now() + PROBE_MS;
    const endpointIds = this.#deps.lanes.takeProbes(PROBE_BATCH);
    if (endpointIds.length === 0) return;
    const found = await findNextDue(database.delivery, endpointIds);
    for (const lane of found)
      if (lane.in_ms < (this.#deps.horizonMs ?? Infinity))
        this.#deps.lanes.note(lane.endpoint_id, lane.in_ms, clock.now());
  }

  /**
   * Sweeps beside the claims, which start at their floors and need not wait for it. Every turn looks at the known endpoints from
   * their floors on; now and then one looks at everything from the beginning, for expired leases and unknown endpoints. That one
   * wades through all dead entries while something holds back vacuum, hence it is paced by its own duration.
   */
  #startSweep(): void {
    const { clock, config } = this.#deps;
    this.#isSweeping = true;
    this.#sweeping = (clock.now() >= this.#fullSweepAtMs ? this.#sweepAll() : this.#sweepKnown())
      .catch((error: unknown) => this.#deps.onError(error, 'sweep'))
      .then(() => {
        this.#isSweeping = false;
        this.#sweepAtMs = this.#fullSweepAtMs <= clock.now() ? 0 : clock.now() + config['delivery.sweepMs'];
        this.#deps.onChange();
      });
  }

  async #sweepAll(): Promise<void> {
    const { clock, database } = this.#deps;
    // Whoever asks for another one while this one reads gets it.
    this.#fullSweepAtMs = Infinity;
    const started = performance.now();
    let swept: Lane[];
    try {
      swept = await sweepLanes(database.delivery);
      for (const lane of swept) this.#noteSwept(lane);
    } finally {
      const again = clock.now() + this.#fullSweepPace.pauseAfter(performance.now() - started);
      this.#fullSweepAtMs = Math.min(this.#fullSweepAtMs, again);
    }
    await this.#deps.onSwept(swept);
  }

  async #sweepKnown(): Promise<void> {
    const floors = this.#deps.lanes.floors();
    for (let at = 0; at < floors.length; at += SWEEP_BATCH)
      for (const lane of await sweepFromFloors(
        this.#deps.database.delivery,
        floors.slice(at, at + SWEEP_BATCH),
      ))
        this.#noteSwept(lane);
  }

  #noteSwept(lane: Lane): void {
    if (this.#deps.takesSwept?.(lane) === false) return;
    this.#deps.lanes.noteSwept(lane.endpoint_id, lane.due_ms, lane.in_ms, this.#deps.clock.now());
  }
}
