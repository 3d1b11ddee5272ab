import type { RedisConnection } from '../../platform/redis/connection.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { BucketLimit, PermitRequest, TakeResult } from '../port.ts';
import { ACQUIRE, JOIN, RELEASE, TAKE } from './scripts.ts';

export interface SharedGrant {
  readonly count: number;
  /** Milliseconds until the next token; null when tokens are not what is short. */
  readonly retryAfterMs: number | null;
}

export interface SharedRelease {
  readonly slots: number;
  /** Tokens that go back to the endpoint's bucket. */
  readonly tokens: number;
  readonly rate: BucketLimit | null;
}

const NOTHING = { maxConcurrency: 0, rate: null } as const;

/** The limits as Redis keeps them for all processes. Every call throws what RedisConnection.run throws. */
export class SharedLimits {
  readonly #redis: RedisConnection;
  readonly #prefix: string;
  readonly #process: string;
  readonly #leaseMs: number;
  #sequence = 0;

  /** @param process name of this process' slots: another for every run, so that no run takes over what its forerunner held */
  constructor(redis: RedisConnection, prefix: string, process: string, leaseMs: number) {
    this.#redis = redis;
    this.#prefix = prefix;
    this.#process = process;
    this.#leaseMs = leaseMs;
  }

  async take(bucket: string, n: number, limit: BucketLimit): Promise<TakeResult> {
    const key = `{${this.#prefix}:t:${bucket}}`;
    const answer = await this.#redis.run(TAKE, [key], [n, limit.ratePerSecond, limit.burst]);
    const [ok, retryAfterMs] = pair(answer);
    return ok === 1 ? { ok: true } : { ok: false, retryAfterMs };
  }

  /** @param mine slots of the endpoint that this process holds now, whatever Redis believes */
  async acquire({ endpointId, wanted, limits }: PermitRequest, mine: number): Promise<SharedGrant> {
    const { maxConcurrency, rate } = limits;
    const args = [this.#process, ++this.#sequence, mine, wanted, maxConcurrency, this.#leaseMs];
    const answer = await this.#redis.run(ACQUIRE, this.#keys(endpointId), [...args, ...bucket(rate)]);
    const [count, retryAfterMs] = pair(answer);
    return { count, retryAfterMs: retryAfterMs < 0 ? null : retryAfterMs };
  }

  /** Says how many slots of the endpoint this process holds, and renews their lease. */
  async register(endpointId: EndpointId, mine: number): Promise<void> {
    await this.acquire({ endpointId, wanted: 0, limits: NOTHING }, mine);
  }

  async release(endpointId: EndpointId, { slots, tokens, rate }: SharedRelease): Promise<void> {
    const args = [this.#process, ++this.#sequence, slots, this.#leaseMs, tokens];
    await this.#redis.run(RELEASE, this.#keys(endpointId), [...args, ...bucket(rate)]);
  }

  /** Says that this process is there for another lease. @returns how many there are, this one included */
  async join(): Promise<number> {
    return Number(await this.#redis.run(JOIN, [`{${this.#prefix}:members}`], [this.#process, this.#leaseMs]));
  }

  async leave(): Promise<void> {
    await this.#redis.run(JOIN, [`{${this.#prefix}:members}`], [this.#process, 0]);
  }

  #keys(endpointId: EndpointId): [string, string] {
    const tag = `{${this.#prefix}:e:${endpointId}}`;
    return [`${tag}:slots`, `${tag}:bucket`];
  }
}

function bucket(rate: BucketLimit | null): (string | number)[] {
  return rate ? [rate.ratePerSecond, rate.burst] : ['', ''];
}

function pair(answer: unknown): [number, number] {
  if (!Array.isArray(answer)) throw new TypeError('a script of ours answered something else');
  return [Number(answer[0]), Number(answer[1])];
}
