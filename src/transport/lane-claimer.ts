import type { Config } from '../config/index.ts';
import type { Coordination, PermitGrant } from '../coordination/port.ts';
import { type ClaimedRow, claimWork, type Lane } from '../delivery/index.ts';
import { type DeliveryTarget, type EndpointDirectory, giveProbeBack, takeProbe } from '../endpoints/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { Clock } from '../shared/clock.ts';
import type { EndpointId } from '../shared/ids.ts';
import { INLINE_PAYLOAD_BYTES, toWork } from './claimed-work.ts';
import { Lanes } from './lanes.ts';
import type { ClaimedWork } from './port.ts';
import { Sweeper, type SweeperDeps } from './sweeper.ts';

export interface LaneClaimerDeps extends Pick<SweeperDeps, 'horizonMs' | 'takesSwept'> {
  readonly database: Database;
  readonly directory: EndpointDirectory;
  readonly coordination: Coordination;
  readonly config: Config;
  /** A clock that never goes back: deadlines here must not wait for one that was set. */
  readonly clock: Clock;
  /** Name of this process in leases. */
  readonly instance: string;
  readonly onError: (error: unknown, what: string) => void;
  /** Each claim that found something; lost attempts are those whose worker vanished. */
  readonly onClaim?: (claim: ClaimReport) => void;
  /** After each full sweep: how long the oldest due delivery has been due, 0 when none is. */
  readonly onSweep?: (oldestDueAgeMs: number) => void;
  /** Something changed that a waiting claimer wants to look at. */
  readonly onChange: () => void;
}

export interface ClaimReport {
  readonly durationMs: number;
  readonly rows: number;
  readonly lostAttempts: number;
}

export type Grant = PermitGrant & { readonly target: DeliveryTarget };

/** No slot is free for what is ready: another process may give one back, and nobody tells of it. */
const SLOT_MS = 200;
/** Between two tries to become the one that probes a failing endpoint. */
const PROBE_AGAIN_MS = 500;

/**
 * Claims due rows of the work table fairly: every endpoint that has work gets its share of the room, up to its own free slots. Which
 * endpoints have work is known from what it is told, and from a paced sweep, never from a scan in each claim.
 */
export class LaneClaimer {
  readonly #deps: LaneClaimerDeps;
  readonly #lanes = new Lanes();
  readonly #sweeper: Sweeper;

  constructor(deps: LaneClaimerDeps) {
    this.#deps = deps;
    this.#sweeper = new Sweeper({
      ...deps,
      lanes: this.#lanes,
      onSwept: async (swept) => deps.onSweep?.(await this.#oldestDueAgeMs(swept)),
    });
  }

  /** Work is due now, or in some milliseconds. */
  note(endpointId: EndpointId, inMs: number): void {
    this.#lanes.note(endpointId, inMs, this.#deps.clock.now());
  }

  /** Another process told of work: all endpoints when it could not name them. */
  heard(endpointIds: readonly EndpointId[] | null): void {
    if (endpointIds === null) this.#sweeper.soon();
    for (const endpointId of endpointIds ?? []) {
      this.#deps.directory.forgetWaitingTarget(endpointId);
      this.note(endpointId, 0);
    }
    this.#deps.onChange();
  }

  /** Whether due work of the endpoint is known that is claimed from here. */
  isReady(endpointId: EndpointId): boolean {
    return this.#lanes.isReady(endpointId);
  }

  /** Whether there is an endpoint that could be asked for. */
  get hasReady(): boolean {
    this.#lanes.promote(this.#deps.clock.now());
    return this.#lanes.readyCount > 0;
  }

  /** Looks for work that nobody told of, when it is time. */
  lookAround(): Promise<void> {
    return this.#sweeper.turn();
  }

  /** Milliseconds until there is something to look at by the passing of time alone. */
  idleMs(): number {
    const now = this.#deps.clock.now();
    const untilLookMs = Math.min(
      this.#lanes.msUntilReady(now),
      this.#sweeper.msUntilTurn(now),
      this.#lanes.readyCount > 0 ? SLOT_MS : Infinity,
    );
    return Math.max(1, Math.min(this.#deps.config['delivery.pollMs'], untilLookMs));
  }

  /** Permits for the endpoints that have work, each its share of `room`. */
  async permits(room: number): Promise<Grant[]> {
    return (await this.#page(room)).grants;
  }

  /** @returns how many endpoints were looked at, of which some may take nothing, and what those that take something were granted */
  async #page(room: number): Promise<{ readonly looked: number; readonly grants: Grant[] }> {
    const ready = room <= 0 ? [] : this.#lanes.ready(this.#deps.clock.now(), room);
    if (ready.length === 0) return { looked: 0, grants: [] };
    const targets = await this.#deps.directory.targets(ready);
    const active = ready
      .map((id) => targets.get(id))
      .filter((target) => target?.state === 'active') as DeliveryTarget[];
    for (const endpointId of ready)
      if (targets.get(endpointId)?.state !== 'active') this.#lanes.setAside(endpointId);
    const share = Math.max(1, Math.floor(room / Math.max(1, active.length)));
    const now = performance.now();
    const wanted: { target: DeliveryTarget; count: number }[] = [];
    for (const target of active) {
      const probeInMs = msUntilProbe(target, now);
      if (probeInMs === null) wanted.push({ target, count: share });
      else if (probeInMs <= 0) wanted.push({ target, count: 1 });
      else this.#lanes.block(target.endpointId, this.#deps.clock.now() + probeInMs);
    }
    const grants = await this.#deps.coordination.acquire(
      wanted.map(({ target, count }) => ({
        endpointId: target.endpointId,
        wanted: count,
        limits: target.limits,
      })),
    );
    return {
      looked: ready.length,
      grants: grants.map((grant, index) => ({ ...grant, target: wanted[index]!.target })),
    };
  }

  /** As `permits`, and what was asked goes behind the others; a page of endpoints without a free slot, or that take nothing, does not hide those behind it. */
  async permitsInTurn(room: number): Promise<Grant[]> {
    const endpoints = this.#lanes.readyCount;
    for (let seen = 0; ;) {
      const { looked, grants } = await this.#page(room);
      this.turn(grants);
      seen += looked;
      if (countPermits(grants) > 0 || looked === 0 || seen >= endpoints) return grants;
    }
  }

  /** What was asked goes behind the others; an empty bucket is not asked again before it has a token. */
  turn(grants: readonly Grant[]): void {
    const now = this.#deps.clock.now();
    for (const { endpointId, retryAfterMs } of grants) {
      if (retryAfterMs !== null) this.#lanes.block(endpointId, now + retryAfterMs);
      this.#lanes.rotate(endpointId);
    }
  }

  /** Returns permits that are not used. */
  giveBack(grants: readonly Grant[]): void {
    for (const grant of grants) this.#deps.coordination.release(grant.permits, false);
  }

  /** Claims as many rows of each endpoint as it has permits for; permits without a row are given back, and all when it throws. */
  async claim(grants: readonly Grant[]): Promise<ClaimedWork[]> {
    let taken: { healthy: Grant[]; probes: EndpointId[] };
    try {
      taken = await this.#takeProbes(grants);
    } catch (error) {
      this.giveBack(grants);
      throw error;
    }
    const work = await this.#claim(taken.healthy);
    for (const endpointId of taken.probes)
      // There was nothing to probe with.
      if (!work.some((one) => one.endpointId === endpointId)) await this.#giveProbeBack(endpointId);
    return work;
  }

  /** What was claimed beside it is leased and has to be sent, whatever becomes of this: a probe that is not given back ends by itself. */
  async #giveProbeBack(endpointId: EndpointId): Promise<void> {
    try {
      await giveProbeBack(this.#deps.database.delivery, endpointId);
    } catch (error) {
      this.#deps.onError(error, 'probe');
    }
  }

  /** While a breaker is open, one process at a time sends one delivery, whatever permits there are. */
  async #takeProbes(grants: readonly Grant[]): Promise<{ healthy: Grant[]; probes: EndpointId[] }> {
    const { database, config, clock } = this.#deps;
    const healthy: Grant[] = [];
    const probes: EndpointId[] = [];
    for (const grant of grants) {
      const { endpointId, target, permits } = grant;
      if (permits.length > 0 && msUntilProbe(target, 0) !== null) {
        const ms = target.timeoutMs + config['delivery.leaseMarginMs'];
        if (!(await takeProbe(database.delivery, endpointId, ms))) {
          this.giveBack([grant]);
          this.#lanes.block(endpointId, clock.now() + PROBE_AGAIN_MS);
          continue;
        }
        probes.push(endpointId);
      }
      healthy.push(grant);
    }
    return { healthy, probes };
  }

  async close(): Promise<void> {
    await this.#sweeper.close();
  }

  async #claim(grants: readonly Grant[]): Promise<ClaimedWork[]> {
    const { database, config, instance } = this.#deps;
    const wanted = grants.filter((grant) => grant.permits.length > 0);
    if (wanted.length === 0) return [];
    // What is told of from here on may not be in this claim's snapshot.
    for (const grant of wanted) this.#lanes.claiming(grant.endpointId);
    const started = performance.now();
    let rows: ClaimedRow[];
    try {
      rows = await claimWork(
        database.delivery,
        wanted.map((grant) => ({
          endpointId: grant.endpointId,
          slots: grant.permits.length,
          floorMs: this.#lanes.floorOf(grant.endpointId),
        })),
        { ms: config['delivery.leaseMs'], worker: instance },
        INLINE_PAYLOAD_BYTES,
      );
    } catch (error) {
      this.giveBack(wanted);
      for (const grant of wanted) this.#lanes.note(grant.endpointId, 0, 0);
      throw error;
    }
    if (rows.length > 0) {
      const lostAttempts = rows.filter((row) => row.after_lost).length;
      this.#deps.onClaim?.({ durationMs: performance.now() - started, rows: rows.length, lostAttempts });
    }
    return this.#handOut(wanted, rows, started + config['delivery.leaseMs']);
  }

  /** Joins rows with permits, gives unused permits back, and remembers where the next claim starts. */
  #handOut(grants: readonly Grant[], rows: readonly ClaimedRow[], leaseEndsAtMs: number): ClaimedWork[] {
    const byEndpoint = Map.groupBy(rows, (row) => row.endpoint_id);
    const work: ClaimedWork[] = [];
    for (const { endpointId, permits, target } of grants) {
      const mine = byEndpoint.get(endpointId) ?? [];
      mine.forEach((row, index) => work.push(toWork(row, target, permits[index]!, leaseEndsAtMs)));
      this.#deps.coordination.release(permits.slice(mine.length), false);
      const firstDueMs = mine.length === 0 ? undefined : Math.min(...mine.map((row) => row.due_ms));
      this.#lanes.claimed(endpointId, firstDueMs, mine.length === permits.length);
    }
    return work;
  }

  /** Endpoints that are to wait do not count: their age says nothing of how delivery does. */
  async #oldestDueAgeMs(swept: readonly Lane[]): Promise<number> {
    const due = swept.filter((lane) => lane.in_ms < 0);
    const targets = await this.#deps.directory.targets(due.map((lane) => lane.endpoint_id));
    return due.reduce((oldest, lane) => {
      const target = targets.get(lane.endpoint_id);
      const waits = target?.state !== 'active' || msUntilProbe(target, 0) !== null;
      return waits ? oldest : Math.max(oldest, -lane.in_ms);
    }, 0);
  }
}

/** Milliseconds until a failing endpoint may be probed, not above 0 when it may be now; null when its breaker is closed. */
export function msUntilProbe({ failing }: DeliveryTarget, now: number): number | null {
  return failing === null || failing.probeAtMs === null ? null : failing.probeAtMs - now;
}

export function countPermits(grants: readonly Grant[]): number {
  return grants.reduce((sum, grant) => sum + grant.permits.length, 0);
}
