/**
 * Names to addresses for deliveries. What one tenant's names cost concerns that tenant only: a name is looked up once at a time,
 * look-ups and cached answers are bounded in all and by share, and shares take turns.
 */
import type { LookupAddress } from 'node:dns';
import { AnswerCache } from './answer-cache.ts';
import { FairSlots } from './fair-slots.ts';
import { localAddresses, parseHosts } from './hosts-file.ts';
import { type NameAnswer, type NameFailure, NameQuery } from './name-query.ts';
import { completeNames, parseSearchList } from './search-list.ts';
import { WatchedFile } from './watched-file.ts';

/** `refused`: our own limits, before anything was asked. Says nothing of the name. */
export type NameResult =
  | { readonly kind: 'addresses'; readonly addresses: readonly LookupAddress[] }
  | { readonly kind: 'failed'; readonly reason: NameFailure }
  | { readonly kind: 'refused'; readonly why: RefusalReason };

/** `queue_full`: no place to wait left for the share. `waited`: no slot within the longest wait. */
export type RefusalReason = 'queue_full' | 'waited';

/** Somebody who waits for a name. */
export interface PendingName {
  /** Nothing has been asked yet: the look-up waits for a slot of ours. */
  readonly isQueued: boolean;
  /** The result is not wanted any more. The last one who leaves ends the look-up. */
  leave(): void;
}

/**
 * @param share whose limits the look-up counts for
 * @param done called once, unless the waiter leaves; before the call returns when no look-up is needed
 * @returns undefined when `done` was called already
 */
export type ResolveName = (
  name: string,
  share: string,
  done: (result: NameResult) => void,
) => PendingName | undefined;

export interface ResolverObserver {
  /** A look-up ended. `cancelled`: nobody waited for it any more. */
  onLookup(result: 'answered' | NameFailure | 'cancelled', durationMs: number): void;
  onRefused(why: RefusalReason): void;
}

export interface NameResolverOptions {
  /** `ip` or `ip:port`; none: those of resolv.conf. */
  readonly servers: readonly string[];
  /** Deadline of one look-up over all retries. */
  readonly timeoutMs: number;
  /** Look-ups at a time. */
  readonly maxLookups: number;
  readonly maxCachedNames: number;
  readonly observer?: ResolverObserver;
  /** For tests. */
  readonly hostsPath?: string;
  readonly resolvConfPath?: string;
  readonly now?: () => number;
}

const MIN_TTL_MS = 1_000;
const MAX_TTL_MS = 60_000;
const FAILURE_TTL_MS = 3_000;
/** Names that wait for a slot, for each slot. */
const WAITING_PER_SLOT = 4;
/** Longest wait for a slot. */
const MAX_WAIT_MS = 1_000;

type KeptAnswer = Exclude<NameResult, { kind: 'refused' }>;

interface Waiter {
  readonly share: string;
  readonly done: (result: NameResult) => void;
}

/** One look-up and all who wait for it. */
interface Lookup {
  readonly name: string;
  readonly waiters: Set<Waiter>;
  readonly waitTimer: NodeJS.Timeout | undefined;
  /** Present once it has a slot. */
  running: { readonly share: string; readonly query: NameQuery; readonly startedMs: number } | undefined;
}

export class NameResolver {
  readonly #options: NameResolverOptions;
  readonly #now: () => number;
  readonly #hosts;
  readonly #search;
  readonly #cache: AnswerCache<KeptAnswer>;
  readonly #slots: FairSlots<Lookup>;
  readonly #lookups = new Map<string, Lookup>();

  constructor(options: NameResolverOptions) {
    this.#options = options;
    this.#now = options.now ?? (() => performance.now());
    this.#hosts = new WatchedFile(options.hostsPath ?? '/etc/hosts', parseHosts, this.#now);
    this.#search = new WatchedFile(options.resolvConfPath ?? '/etc/resolv.conf', parseSearchList, this.#now);
    this.#cache = new AnswerCache(options.maxCachedNames, this.#now);
    this.#slots = new FairSlots(options.maxLookups, options.maxLookups * WAITING_PER_SLOT, (lookup, share) =>
      this.#start(lookup, share),
    );
  }

  get cachedNames(): number {
    return this.#cache.size;
  }

  /** Look-ups that are running or wait for a slot. */
  get openLookups(): number {
    return this.#lookups.size;
  }

  readonly resolve: ResolveName = (hostname, share, done) => {
    const name = hostname.toLowerCase();
    const known = this.#known(name);
    if (known !== undefined) {
      done(known);
      return undefined;
    }
    return this.#wait(name, { share, done });
  };

  /** Ends all look-ups; those who wait hear nothing. */
  close(): void {
    for (const lookup of [...this.#lookups.values()]) this.#drop(lookup);
  }

  #known(name: string): KeptAnswer | undefined {
    const local = localAddresses(name.replace(/\.$/, ''), this.#hosts.contents);
    return local === undefined ? this.#cache.get(name) : { kind: 'addresses', addresses: local };
  }

  #wait(name: string, waiter: Waiter): PendingName | undefined {
    const lookup = this.#lookups.get(name) ?? newLookup(name, (late) => this.#refuse(late, 'waited'));
    if (lookup.running === undefined) {
      this.#lookups.set(name, lookup);
      if (this.#slots.enter(lookup, waiter.share) === 'refused') {
        if (lookup.waiters.size === 0) this.#forget(lookup);
        this.#options.observer?.onRefused('queue_full');
        waiter.done({ kind: 'refused', why: 'queue_full' });
        return undefined;
      }
    }
    lookup.waiters.add(waiter);
    return {
      get isQueued() {
        return lookup.running === undefined;
      },
      leave: () => this.#leave(lookup, waiter),
    };
  }

  #start(lookup: Lookup, share: string): void {
    clearTimeout(lookup.waitTimer);
    for (const other of lookup.waiters) this.#slots.withdraw(lookup, other.share);
    const { servers, timeoutMs } = this.#options;
    const names = completeNames(lookup.name, this.#search.contents);
    const query = new NameQuery(names, { servers, timeoutMs }, (answer) => this.#answered(lookup, answer));
    lookup.running = { share, query, startedMs: this.#now() };
  }

  #answered(lookup: Lookup, answer: NameAnswer): void {
    const { share } = lookup.running!;
    const kept: KeptAnswer =
      answer.kind === 'addresses' ? { kind: 'addresses', addresses: answer.addresses } : answer;
    this.#cache.set(lookup.name, kept, ttlOf(answer), share);
    this.#finish(lookup, answer.kind === 'addresses' ? 'answered' : answer.reason);
    for (const waiter of lookup.waiters) waiter.done(kept);
  }

  #refuse(lookup: Lookup, why: RefusalReason): void {
    this.#forget(lookup);
    for (const waiter of lookup.waiters) {
      this.#options.observer?.onRefused(why);
      waiter.done({ kind: 'refused', why });
    }
  }

  #leave(lookup: Lookup, waiter: Waiter): void {
    if (!lookup.waiters.delete(waiter)) return;
    if (lookup.waiters.size === 0) this.#drop(lookup);
    else if (lookup.running === undefined && ![...lookup.waiters].some((w) => w.share === waiter.share))
      this.#slots.withdraw(lookup, waiter.share);
  }

  #drop(lookup: Lookup): void {
    if (this.#lookups.get(lookup.name) !== lookup) return;
    lookup.running?.query.cancel();
    if (lookup.running) this.#finish(lookup, 'cancelled');
    else this.#forget(lookup);
  }

  #finish(lookup: Lookup, result: Parameters<ResolverObserver['onLookup']>[0]): void {
    const { share, startedMs } = lookup.running!;
    this.#forget(lookup);
    this.#slots.release(share);
    this.#options.observer?.onLookup(result, this.#now() - startedMs);
  }

  #forget(lookup: Lookup): void {
    clearTimeout(lookup.waitTimer);
    this.#lookups.delete(lookup.name);
    for (const { share } of lookup.waiters) this.#slots.withdraw(lookup, share);
  }
}

function newLookup(name: string, onLate: (lookup: Lookup) => void): Lookup {
  const lookup: Lookup = {
    name,
    waiters: new Set(),
    waitTimer: setTimeout(() => onLate(lookup), MAX_WAIT_MS),
    running: undefined,
  };
  return lookup;
}

function ttlOf(answer: NameAnswer): number {
  if (answer.kind === 'failed') return FAILURE_TTL_MS;
  return Math.min(MAX_TTL_MS, Math.max(MIN_TTL_MS, answer.ttlS * 1_000));
}
