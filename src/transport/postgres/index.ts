import type { Config } from '../../config/index.ts';
import type { Coordination, PermitGrant } from '../../coordination/port.ts';
import {
  type ClaimedRow,
  claimWork,
  findNextDue,
  sweepFromFloors,
  sweepLanes,
} from '../../delivery/index.ts';
import type { DeliveryTarget, EndpointDirectory } from '../../endpoints/index.ts';
import type { Database } from '../../platform/db/database.ts';
import { sleep, Wakeup } from '../../shared/abort.ts';
import type { Clock } from '../../shared/clock.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { Capacity, ClaimedWork, DueWork, Transport } from '../port.ts';
import { Lanes } from './lanes.ts';
import { Wakeups } from './wakeups.ts';

export interface PostgresTransportDeps {
  readonly database: Database;
  readonly directory: EndpointDirectory;
  readonly coordination: Coordination;
  readonly config: Config;
  /** A clock that never goes back: deadlines here must not wait for one that was set. */
  readonly clock: Clock;
  /** Name of this process in leases and notifications. */
  readonly instance: string;
  readonly onError: (error: unknown, what: string) => void;
  /** Each claim that found something; lost attempts are those whose worker vanished. */
  readonly onClaim?: (claim: { durationMs: number; rows: number; lostAttempts: number }) => void;
  /** After each sweep: how long the oldest due delivery has been due, 0 when none is. */
  readonly onSweep?: (oldestDueAgeMs: number) => void;
}

type Grant = PermitGrant & { readonly target: DeliveryTarget };

/** Payloads up to this size come with the claim; larger ones are read when their turn comes, so that a claim's memory is bounded. */
const INLINE_PAYLOAD_BYTES = 65_536;
/** Full sweeps may take this share of the time, up to a pause of one lease time, so that expired leases are found within another. */
const SWEEP_TIME_SHARE = 0.05;
const SWEEP_BATCH = 1_000;
const PROBE_BATCH = 200;
const PROBE_MS = 100;
const ERROR_PAUSE_MS = 250;
/** While deliveries are in flight, a claim for fewer rows than this waits a moment for more slots to come free. */
const SMALL_CLAIM = 64;
const SMALL_CLAIM_PAUSE_MS = 2;

/**
 * The default transport: the work table itself. One claimer a process takes due rows fairly: every endpoint that has work gets
 * its share of the free capacity, up to its own free slots. Which endpoints have work is known from wake-ups (this process's
 * commits, other processes' notifications) and from a paced sweep, never from a scan in each claim.
 */
export class PostgresTransport implements Transport {
  readonly name = 'postgres';
  readonly #deps: PostgresTransportDeps;
  readonly #lanes = new Lanes();
  readonly #wakeup = new Wakeup();
  readonly #wakeups: Wakeups;
  #sweepAtMs = 0;
  #fullSweepAtMs = 0;
  #isSweeping = false;
  #sweeping: Promise<void> = Promise.resolve();
  /** New work was told of since the last claim: somebody waits for its latency. */
  #urgent = false;
  #probeAtMs = 0;

  constructor(deps: PostgresTransportDeps) {
    this.#deps = deps;
    this.#wakeups = new Wakeups({
      database: deps.database,
      instance: deps.instance,
      onDue: (endpointIds) => this.#heard(endpointIds),
      onError: (error) => deps.onError(error, 'wakeups'),
    });
  }

  /** Nothing: the work rows are the queue. */
  async enqueue(): Promise<void> {}

  /** Nothing: there is no message to acknowledge. */
  async settled(): Promise<void> {}

  announce(work: readonly DueWork[]): void {
    const now = this.#deps.clock.now();
    let due = false;
    for (const { endpointId, inMs } of work) {
      this.#lanes.note(endpointId, inMs, now);
      if (inMs > 0) continue;
      this.#wakeups.tell(endpointId);
      due = true;
    }
    if (due) this.#wakeUrgently();
  }

  async *receive(capacity: Capacity, signal: AbortSignal): AsyncIterable<readonly ClaimedWork[]> {
    await this.#wakeups.listen();
    capacity.onMore(() => this.#wakeup.ring());
    while (!signal.aborted) {
      try {
        const work = await this.#step(capacity, signal);
        if (work.length > 0) yield work;
      } catch (error) {
        this.#deps.onError(error, 'claim');
        await sleep(ERROR_PAUSE_MS, signal);
      }
    }
  }

  async close(): Promise<void> {
    await this.#sweeping;
    await this.#wakeups.close();
  }

  #heard(endpointIds: readonly EndpointId[] | null): void {
    if (endpointIds === null) this.#fullSweepAtMs = this.#sweepAtMs = 0;
    else {
      for (const endpointId of endpointIds) {
        this.#deps.directory.forgetWaitingTarget(endpointId);
        this.#lanes.note(endpointId, 0, this.#deps.clock.now());
      }
    }
    this.#wakeUrgently();
  }

  #wakeUrgently(): void {
    this.#urgent = true;
    this.#wakeup.ring();
  }

  /** One turn: sweep when it is time, then claim, or wait until something can be claimed. */
  async #step(capacity: Capacity, signal: AbortSignal): Promise<ClaimedWork[]> {
    if (!this.#isSweeping && this.#deps.clock.now() >= this.#sweepAtMs) this.#startSweep();
    if (this.#deps.clock.now() >= this.#probeAtMs) await this.#probe();
    let grants = await this.#permits(capacity);
    if (
      !this.#urgent &&
      countPermits(grants) < SMALL_CLAIM &&
      capacity.free() < this.#deps.config['delivery.concurrency']
    ) {
      // Slots come free one by one while requests end: gather them, or each claim would bring a row or two.
      this.#giveBack(grants);
      await sleep(SMALL_CLAIM_PAUSE_MS, signal);
      grants = await this.#permits(capacity);
    }
    this.#turnLanes(grants);
    // A page of endpoints without a free slot must not hide the ones behind it.
    for (
      let seen = grants.length;
      countPermits(grants) === 0 && grants.length > 0 && seen < this.#lanes.readyCount;
      seen += grants.length
    ) {
      grants = await this.#permits(capacity);
      this.#turnLanes(grants);
    }
    if (countPermits(grants) > 0) return this.#claim(grants);
    await this.#wakeup.wait(this.#idleMs(), signal);
    return [];
  }

  /** Permits for the endpoints that have work, each its share of `room`. */
  async #permits(capacity: Capacity): Promise<Grant[]> {
    const now = this.#deps.clock.now();
    const room = Math.min(capacity.free(), this.#deps.config['delivery.claimBatch']);
    if (room <= 0) return [];
    const ready = this.#lanes.ready(now, room);
    if (ready.length === 0) return [];
    const targets = await this.#deps.directory.targets(ready);
    const active = ready
      .map((id) => targets.get(id))
      .filter((target) => target?.state === 'active') as DeliveryTarget[];
    for (const endpointId of ready)
      if (targets.get(endpointId)?.state !== 'active') this.#lanes.setAside(endpointId);
    const share = Math.max(1, Math.floor(room / Math.max(1, active.length)));
    const grants = await this.#deps.coordination.acquire(
      active.map((target) => ({ endpointId: target.endpointId, wanted: share, limits: target.limits })),
    );
    return grants.map((grant, index) => ({ ...grant, target: active[index]! }));
  }

  /** What was asked goes behind the others; an empty bucket is not asked again before it has a token. */
  #turnLanes(grants: readonly Grant[]): void {
    const now = this.#deps.clock.now();
    for (const { endpointId, retryAfterMs } of grants) {
      if (retryAfterMs !== null) this.#lanes.block(endpointId, now + retryAfterMs);
      this.#lanes.rotate(endpointId);
    }
  }

  async #claim(grants: readonly Grant[]): Promise<ClaimedWork[]> {
    const { database, config, instance } = this.#deps;
    const wanted = grants.filter((grant) => grant.permits.length > 0);
    // What is told of from here on may not be in this claim's snapshot.
    this.#urgent = false;
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
      this.#giveBack(wanted);
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

  #giveBack(grants: readonly Grant[]): void {
    for (const grant of grants) this.#deps.coordination.release(grant.permits, false);
  }

  #idleMs(): number {
    const now = this.#deps.clock.now();
    const untilLookMs = Math.min(this.#lanes.msUntilReady(now), this.#sweepAtMs - now, this.#probeAtMs - now);
    return Math.max(1, Math.min(this.#deps.config['delivery.pollMs'], untilLookMs));
  }

  /** Asks for the next due time of endpoints that have work in the future, so that retries start on time and not at the next sweep. */
  async #probe(): Promise<void> {
    const { clock, database } = this.#deps;
    this.#probeAtMs = clock.now() + PROBE_MS;
    const endpointIds = this.#lanes.takeProbes(PROBE_BATCH);
    if (endpointIds.length === 0) return;
    const found = await findNextDue(database.delivery, endpointIds);
    for (const lane of found) this.#lanes.note(lane.endpoint_id, lane.in_ms, clock.now());
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
        this.#wakeup.ring();
      });
  }

  async #sweepAll(): Promise<void> {
    const { clock, config, database } = this.#deps;
    // Whoever asks for another one while this one reads gets it.
    this.#fullSweepAtMs = Infinity;
    const started = performance.now();
    let oldestDueAgeMs = 0;
    try {
      for (const lane of await sweepLanes(database.delivery)) {
        this.#lanes.noteSwept(lane.endpoint_id, lane.due_ms, lane.in_ms, clock.now());
        oldestDueAgeMs = Math.max(oldestDueAgeMs, -lane.in_ms);
      }
    } finally {
      const pacedMs = Math.max(config['delivery.sweepMs'], (performance.now() - started) / SWEEP_TIME_SHARE);
      const again = clock.now() + Math.min(pacedMs, config['delivery.leaseMs']);
      this.#fullSweepAtMs = Math.min(this.#fullSweepAtMs, again);
    }
    this.#deps.onSweep?.(oldestDueAgeMs);
  }

  async #sweepKnown(): Promise<void> {
    const { clock, database } = this.#deps;
    const floors = this.#lanes.floors();
    for (let at = 0; at < floors.length; at += SWEEP_BATCH) {
      for (const lane of await sweepFromFloors(database.delivery, floors.slice(at, at + SWEEP_BATCH))) {
        this.#lanes.noteSwept(lane.endpoint_id, lane.due_ms, lane.in_ms, clock.now());
      }
    }
  }
}

function countPermits(grants: readonly Grant[]): number {
  return grants.reduce((sum, grant) => sum + grant.permits.length, 0);
}

function toWork(
  row: ClaimedRow,
  target: DeliveryTarget,
  permit: PermitGrant['permits'][number],
  leaseEndsAtMs: number,
): ClaimedWork {
  return {
    leaseEndsAtMs,
    deliveryId: row.delivery_id,
    eventId: row.event_id,
    tenantId: row.tenant_id,
    endpointId: row.endpoint_id,
    leaseToken: row.lease_token,
    attemptNumber: row.attempt_no,
    priorAttempts: row.prior_attempts,
    eventType: row.type ?? '',
    contentType: row.content_type,
    payload: row.payload,
    payloadBytes: row.payload_bytes,
    attributes: row.attributes,
    traceparent: row.traceparent,
    acceptedAtMs: row.accepted_ms,
    target,
    permit,
  };
}
