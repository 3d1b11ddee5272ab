import { randomBytes } from 'node:crypto';
import { RedisConnection } from '../../platform/redis/connection.ts';
import { within } from '../../shared/abort.ts';
import type { Clock } from '../../shared/clock.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { BucketLimit, Coordination, Permit, PermitGrant, PermitRequest, TakeResult } from '../port.ts';
import { Availability } from './availability.ts';
import { HeldPermits } from './held-permits.ts';
import { LocalLimits } from './local-limits.ts';
import { type SharedGrant, SharedLimits, type SharedRelease } from './shared-limits.ts';
import { SpareSlots } from './spare-slots.ts';

export interface RedisCoordinationDeps {
  readonly url: string;
  readonly cluster: boolean;
  /** First part of all keys. */
  readonly prefix: string;
  /** Longest wait for one answer of Redis; the first connection may take four times as long. */
  readonly timeoutMs: number;
  /** Slots of a process that is not heard of for this long are free again. */
  readonly leaseMs: number;
  /** How long slots that come free may be used again without asking, so that a steady flow does not ask for each. Default: 100. */
  readonly slotReuseMs?: number;
  /** Name of this process, for whoever looks into Redis. */
  readonly instance: string;
  /** A clock that never goes back. */
  readonly clock: Clock;
  /** This process went over to its share of the limits, and why; or it is back. */
  readonly onDegraded: (isDegraded: boolean, reason: string) => void;
  /** Duration of each question for permits that Redis answered. */
  readonly onAcquire: (durationMs: number) => void;
  readonly onError: (error: unknown) => void;
}

/** Times that counts which changed meanwhile are registered anew on the way back; the next heartbeat sees to the rest. */
const RETURN_ROUNDS = 5;
/** Endpoints registered in one round trip. */
const REGISTER_BATCH = 500;
const CLOSE_MS = 500;
const SLOT_REUSE_MS = 100;
/** How often kept slots are looked at. */
const SPARE_LOOK_MS = 20;

/**
 * Limits that all processes share, kept in Redis. When Redis fails this process goes on under its share of the limits at once, says
 * so, and returns by itself; nobody waits longer than one time-out for a Redis that does not answer.
 *
 * Redis holds, for each endpoint, how many slots each process has, under a lease. Every question for slots carries the process' own
 * count, so Redis may forget everything, or a reply get lost, and the next question or heartbeat mends it. That needs one question at a
 * time; releases may go beside it.
 */
export class RedisCoordination implements Coordination {
  readonly #deps: RedisCoordinationDeps;
  readonly #redis: RedisConnection;
  readonly #shared: SharedLimits;
  readonly #local: LocalLimits;
  readonly #permits = new HeldPermits();
  readonly #spares: SpareSlots;
  #spareTimer: NodeJS.Timeout | undefined;
  /** Endpoints whose count in Redis may not be the one that is held. */
  readonly #stale = new Set<EndpointId>();
  readonly #availability: Availability;
  /** Permits that were given back and that Redis has not been told of. */
  readonly #returns = new Map<EndpointId, SharedRelease>();
  #turn: Promise<unknown> = Promise.resolve();

  constructor(deps: RedisCoordinationDeps) {
    this.#deps = deps;
    const { url, cluster, prefix, timeoutMs, leaseMs, clock, onDegraded, onError } = deps;
    this.#redis = new RedisConnection({
      url,
      cluster,
      timeoutMs,
      onUp: () => this.#availability.connected(),
      onError: (error) => this.#availability.connectionFailed(error),
    });
    this.#spares = new SpareSlots(deps.slotReuseMs ?? SLOT_REUSE_MS);
    const process = `${deps.instance}#${randomBytes(4).toString('hex')}`;
    this.#shared = new SharedLimits(this.#redis, prefix, process, leaseMs);
    this.#local = new LocalLimits(clock, leaseMs);
    this.#availability = new Availability({
      timeoutMs,
      leaseMs,
      isConnected: () => this.#redis.up,
      introduce: (arrived) => this.#inTurn(() => this.#introduce(arrived)),
      beat: () => this.#inTurn(() => this.#beat()),
      onDegraded,
      onError,
    });
  }

  state(): { readonly up: boolean; readonly degraded: boolean } {
    return { up: this.#redis.up, degraded: this.#availability.mode === 'local' };
  }

  async take(bucket: string, n: number, limit: BucketLimit): Promise<TakeResult> {
    await this.#availability.known();
    if (this.#availability.mode === 'shared')
      try {
        const taken = await this.#shared.take(bucket, n, limit);
        if (taken.ok) this.#local.spendNamed(bucket, n, limit);
        return taken;
      } catch (error) {
        this.#availability.failed(error);
      }
    return this.#local.take(bucket, n, limit);
  }

  async charge(bucket: string, n: number, limit: BucketLimit): Promise<void> {
    await this.#availability.known();
    this.#local.charge(bucket, n, limit);
    if (this.#availability.mode !== 'shared') return;
    try {
      await this.#shared.charge(bucket, n, limit);
    } catch (error) {
      this.#availability.failed(error);
    }
  }

  async acquire(requests: readonly PermitRequest[]): Promise<PermitGrant[]> {
    await this.#availability.known();
    if (this.#availability.mode !== 'shared') return requests.map((request) => this.#acquireLocally(request));
    const spares = requests.map((request) => this.#takeSpare(request));
    const open = requests.flatMap((request, index) => {
      const wanted = request.wanted - spares[index]!.length;
      return wanted > 0 ? [{ ...request, wanted }] : [];
    });
    if (open.length === 0) return requests.map((request, index) => withSpares(request, spares[index]!));
    const answers = await this.#inTurn(() => this.#acquireAll(open));
    let next = 0;
    return requests.map((request, index) => {
      const mine = spares[index]!;
      return mine.length < request.wanted ? withSpares(answers[next++]!, mine) : withSpares(request, mine);
    });
  }

  /** Permits for slots that this process has kept; tokens are always asked for. */
  #takeSpare({ endpointId, wanted, limits }: PermitRequest): Permit[] {
    if (limits.rate !== null) return [];
    const room = limits.maxConcurrency - this.#permits.countOf(endpointId);
    const count = this.#spares.take(endpointId, Math.min(wanted, room), this.#deps.clock.now());
    return this.#permits.add(endpointId, count, null, true);
  }

  release(permits: readonly Permit[], used: boolean): void {
    for (const [endpointId, returned] of this.#permits.release(permits, used)) {
      const { slots, tokens, rate, localTokens } = returned;
      if (rate) this.#local.giveBack(endpointId, tokens + localTokens, rate);
      if (this.#availability.mode !== 'shared') {
        this.#stale.add(endpointId);
        continue;
      }
      if (rate === null && this.#spares.keep(endpointId, slots, this.#deps.clock.now()))
        this.#spareTimer ??= setTimeout(() => this.#returnSpares(), SPARE_LOOK_MS).unref();
      else this.#return(endpointId, { slots, tokens, rate });
    }
  }

  #return(endpointId: EndpointId, { slots, tokens, rate }: SharedRelease): void {
    if (this.#returns.size === 0) setImmediate(() => this.#sendReturns());
    const waiting = this.#returns.get(endpointId);
    this.#returns.set(endpointId, {
      slots: slots + (waiting?.slots ?? 0),
      tokens: tokens + (waiting?.tokens ?? 0),
      rate,
    });
  }

  #returnSpares(): void {
    this.#spareTimer = undefined;
    for (const { endpointId, count } of this.#spares.expired(this.#deps.clock.now())) {
      if (this.#availability.mode === 'shared')
        this.#return(endpointId, { slots: count, tokens: 0, rate: null });
      else this.#stale.add(endpointId);
    }
    if (this.#spares.endpoints.length > 0)
      this.#spareTimer = setTimeout(() => this.#returnSpares(), SPARE_LOOK_MS).unref();
  }

  /** Requests end one by one; what ends in one turn of the event loop is one command an endpoint. */
  #sendReturns(): void {
    for (const [endpointId, returned] of this.#returns)
      this.#shared.release(endpointId, returned).catch((error: unknown) => {
        this.#stale.add(endpointId);
        this.#availability.failed(error);
      });
    this.#returns.clear();
  }

  held(): ReadonlyMap<EndpointId, number> {
    return this.#permits.counts;
  }

  /** Gives this process' slots back, as far as Redis answers within half a second; what it does not hear of ends with the lease. */
  async close(): Promise<void> {
    if (this.#availability.mode === 'closed') return;
    clearTimeout(this.#spareTimer);
    for (const endpointId of this.#spares.endpoints) this.#stale.add(endpointId);
    this.#spares.clear();
    this.#sendReturns();
    this.#availability.close();
    const farewell = [...this.#uncertain()].map((endpointId) => this.#shared.register(endpointId, 0));
    await within(CLOSE_MS, Promise.allSettled([...farewell, this.#shared.leave()]));
    this.#redis.close();
  }

  /** One round trip for all endpoints; two when one is named twice, because the second question has to know the first one's answer. */
  async #acquireAll(requests: readonly PermitRequest[]): Promise<PermitGrant[]> {
    const grants: PermitGrant[] = [];
    for (let next = 0; next < requests.length;) {
      const round = distinctFrom(requests, next);
      grants.push(...(await this.#acquireRound(round)));
      next += round.length;
    }
    return grants;
  }

  async #acquireRound(requests: readonly PermitRequest[]): Promise<PermitGrant[]> {
    const { clock, onAcquire } = this.#deps;
    if (this.#availability.mode !== 'shared') return requests.map((request) => this.#acquireLocally(request));
    const asked = clock.now();
    // A count that is sent includes them; sent after it, they would be taken off twice.
    this.#sendReturns();
    const answers = await Promise.allSettled(
      requests.map((request) => this.#shared.acquire(request, this.#mine(request.endpointId))),
    );
    if (answers.every(({ status }) => status === 'fulfilled')) onAcquire(clock.now() - asked);
    return requests.map((request, index) => {
      const answer = answers[index]!;
      if (answer.status === 'fulfilled') return this.#grant(request, answer.value, true);
      // Whether Redis granted anything is not known: what it may have granted is not used, and mended by the next count.
      this.#stale.add(request.endpointId);
      this.#availability.failed(answer.reason);
      return this.#acquireLocally(request);
    });
  }

  #acquireLocally(request: PermitRequest): PermitGrant {
    this.#stale.add(request.endpointId);
    const mine = this.#permits.countOf(request.endpointId);
    return this.#grant(request, this.#local.acquire(request, mine), false);
  }

  #grant({ endpointId, limits }: PermitRequest, grant: SharedGrant, isShared: boolean): PermitGrant {
    if (isShared && limits.rate === null && grant.count > 0)
      this.#spares.granted(endpointId, this.#deps.clock.now());
    if (isShared && limits.rate) this.#local.spend(endpointId, grant.count, limits.rate);
    const permits = this.#permits.add(endpointId, grant.count, limits.rate, isShared);
    return { endpointId, permits, retryAfterMs: grant.retryAfterMs };
  }

  /** After all that came before: a count that is sent must not be overtaken by a grant. */
  #inTurn<T>(act: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(act);
    this.#turn = done.catch(() => undefined);
    return done;
  }

  /** Slots that Redis has to count as this process's. */
  #mine(endpointId: EndpointId): number {
    return this.#permits.countOf(endpointId) + this.#spares.countOf(endpointId);
  }

  #uncertain(): Set<EndpointId> {
    return new Set([...this.#permits.counts.keys(), ...this.#spares.endpoints, ...this.#stale]);
  }

  /**
   * Tells Redis how many slots of these endpoints are held.
   * @param endpointIds all that may be told wrong, at least
   * @throws when Redis does not hear all of it; nothing is forgotten then
   */
  async #register(endpointIds: ReadonlySet<EndpointId>): Promise<void> {
    this.#stale.clear();
    const left = [...endpointIds];
    while (left.length > 0 && this.#availability.mode !== 'closed') {
      const batch = left.splice(0, REGISTER_BATCH);
      this.#sendReturns();
      const told = batch.map((id) => this.#shared.register(id, this.#mine(id)));
      const failed = (await Promise.allSettled(told)).find((one) => one.status === 'rejected');
      if (!failed) continue;
      for (const endpointId of endpointIds) this.#stale.add(endpointId);
      throw failed.reason;
    }
  }

  async #beat(): Promise<void> {
    const [processes] = await Promise.all([this.#shared.join(), this.#register(this.#uncertain())]);
    this.#local.noteProcesses(processes);
  }

  /** Before Redis decides again it knows every count, also of what is granted and released while it is told. */
  async #introduce(arrived: () => void): Promise<void> {
    const processes = await this.#shared.join();
    this.#local.noteReturn();
    this.#local.noteProcesses(processes);
    let changed: ReadonlySet<EndpointId> = this.#uncertain();
    for (let round = 0; round < RETURN_ROUNDS && changed.size > 0; round++) {
      await this.#register(changed);
      changed = new Set(this.#stale);
    }
    arrived();
  }
}

/** What was asked for, or what Redis granted of it, with the slots that were kept. */
function withSpares(grant: PermitGrant | PermitRequest, spares: Permit[]): PermitGrant {
  if ('permits' in grant) return { ...grant, permits: [...spares, ...grant.permits] };
  return { endpointId: grant.endpointId, permits: spares, retryAfterMs: null };
}

/** The longest run of requests from `first` on in which no endpoint comes twice. */
function distinctFrom(requests: readonly PermitRequest[], first: number): readonly PermitRequest[] {
  const seen = new Set<EndpointId>();
  let end = first;
  for (; end < requests.length && !seen.has(requests[end]!.endpointId); end++)
    seen.add(requests[end]!.endpointId);
  return requests.slice(first, end);
}
