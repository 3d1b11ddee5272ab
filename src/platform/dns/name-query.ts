import { type LookupAddress, type RecordWithTtl, Resolver } from 'node:dns';
import { orderFamilies } from './family-order.ts';

/** What the name servers said of a name, or that they said nothing in time. */
export type NameAnswer =
  | { readonly kind: 'addresses'; readonly addresses: readonly LookupAddress[]; readonly ttlS: number }
  | { readonly kind: 'failed'; readonly reason: NameFailure };

/** `not_found`: the name does not exist, or has no address. `server_failure`: the name server could not say. */
export type NameFailure = 'not_found' | 'server_failure' | 'timeout';

export interface NameQueryOptions {
  /** `ip` or `ip:port`; none: those of the system. */
  readonly servers: readonly string[];
  /** Deadline over all names, servers and retries. */
  readonly timeoutMs: number;
}

/** Addresses of a family that are kept of one answer; an answer over TCP may have thousands. */
const MAX_ADDRESSES = 16;
const TRIES = 3;
/** The first try waits for this part of the deadline, each further one for twice the time of the one before. */
const FIRST_TRY_PART = 5;
/** How long the addresses of one family wait for those of the other (RFC 8305, section 3, "Resolution Delay"). */
const OTHER_FAMILY_MS = 50;

/** The gravest one counts: a name of which one family is unknown is not known to have no address. */
const GRAVITY: Readonly<Record<NameFailure, number>> = { not_found: 0, server_failure: 1, timeout: 2 };

/**
 * Asks the name servers for the IPv4 and IPv6 addresses of the first name that exists. c-ares, not getaddrinfo: nothing waits in
 * a thread. Each query has a resolver of its own (30 µs), because a cancelled resolver cancels everything that was asked of it.
 */
export class NameQuery {
  #resolver: Resolver | undefined;
  readonly #names: readonly string[];
  readonly #deadline: NodeJS.Timeout;
  #done: ((answer: NameAnswer) => void) | undefined;
  #otherFamily: NodeJS.Timeout | undefined;
  #at = 0;
  #open = 0;
  #found: RecordWithTtl[] = [];
  #failure: NameFailure = 'not_found';

  /**
   * @param names complete ones, at least one
   * @param done called once, and never before the constructor has returned; not after `cancel`
   */
  constructor(names: readonly string[], options: NameQueryOptions, done: (answer: NameAnswer) => void) {
    this.#names = names;
    this.#done = done;
    this.#deadline = setTimeout(() => this.#end({ kind: 'failed', reason: 'timeout' }), options.timeoutMs);
    try {
      this.#resolver = newResolver(options);
      this.#ask(this.#resolver);
    } catch {
      // resolv.conf cannot be read, for example because no file descriptor is left.
      queueMicrotask(() => this.#end({ kind: 'failed', reason: 'server_failure' }));
    }
  }

  /** Ends the query without an answer. */
  cancel(): void {
    this.#done = undefined;
    this.#stop();
  }

  #ask(resolver: Resolver): void {
    const name = this.#names[this.#at]!;
    this.#open = 2;
    this.#failure = 'not_found';
    for (const type of ['resolve4', 'resolve6'] as const) {
      try {
        resolver[type](name, { ttl: true }, (error, records) => this.#heard(error, records));
      } catch (error) {
        // c-ares refuses a malformed name at once.
        queueMicrotask(() => this.#heard(error as NodeJS.ErrnoException, []));
      }
    }
  }

  #heard(error: NodeJS.ErrnoException | null, records: readonly RecordWithTtl[]): void {
    if (this.#done === undefined) return;
    this.#open -= 1;
    if (error) this.#fail(failureOf(error));
    else this.#found.push(...records.slice(0, MAX_ADDRESSES));
    if (this.#open === 0) return this.#conclude();
    if (this.#found.length > 0) this.#otherFamily = setTimeout(() => this.#conclude(), OTHER_FAMILY_MS);
  }

  #fail(failure: NameFailure): void {
    if (GRAVITY[failure] > GRAVITY[this.#failure]) this.#failure = failure;
  }

  #conclude(): void {
    if (this.#found.length > 0) return this.#end(answerOf(this.#found));
    this.#at += 1;
    if (this.#failure === 'not_found' && this.#at < this.#names.length) return this.#ask(this.#resolver!);
    this.#end({ kind: 'failed', reason: this.#failure });
  }

  #end(answer: NameAnswer): void {
    const done = this.#done;
    this.#done = undefined;
    this.#stop();
    done?.(answer);
  }

  #stop(): void {
    clearTimeout(this.#deadline);
    clearTimeout(this.#otherFamily);
    this.#resolver?.cancel();
  }
}

function newResolver({ servers, timeoutMs }: NameQueryOptions): Resolver {
  const timeout = Math.max(1, Math.ceil(timeoutMs / FIRST_TRY_PART));
  const resolver = new Resolver({ timeout, tries: TRIES });
  if (servers.length > 0) resolver.setServers(servers);
  return resolver;
}

function answerOf(records: readonly RecordWithTtl[]): NameAnswer {
  return {
    kind: 'addresses',
    addresses: orderFamilies(
      records.map(({ address }) => ({ address, family: address.includes(':') ? 6 : 4 })),
    ),
    ttlS: Math.min(...records.map(({ ttl }) => ttl)),
  };
}

function failureOf({ code }: NodeJS.ErrnoException): NameFailure {
  if (code === 'ENOTFOUND' || code === 'ENODATA') return 'not_found';
  return code === 'ETIMEOUT' ? 'timeout' : 'server_failure';
}
