import type { RedisConnection } from '../../platform/redis/connection.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { BucketLimit, PermitRequest, TakeResult } from '../port.ts';
import { ACQUIRE, CHARGE, JOIN, RELEASE, TAKE } from './scripts.ts';

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

/** Somebody who waits for tokens of a bucket. */
interface Taker {
  readonly n: number;
  readonly resolve: (result: TakeResult) => void;
  readonly reject: (error: unknown) => void;
}

/** A script's arguments are bounded, and so is the time for which it holds up Redis. */
const TAKERS_AT_A_TIME = 200;
const AHEAD_MS = 20;
const AHEAD_LIFE_MS = 1_000;
/** Buckets with tokens taken ahead; above it all are forgotten, which costs each some milliseconds of its rate. */
const MAX_AHEAD = 10_000;
const TAKEN = { ok: true } as const;
const NOTHING = { maxConcurrency: 0, rate: null } as const;

/** The limits as Redis keeps them for all processes. Every call throws what RedisConnection.run throws. */
export class SharedLimits {
  readonly #redis: RedisConnection;
  readonly #prefix: string;
  readonly #process: string;
  readonly #leaseMs: number;
  readonly #takers = new Map<string, Taker[]>();
  readonly #ahead = new Map<string, { tokens: number; readonly untilMs: number }>();
  #sequence = 0;

  /** @param process name of this process' slots: another for every run, so that no run takes over what its forerunner held */
  constructor(redis: RedisConnection, prefix: string, process: string, leaseMs: number) {
    this.#redis = redis;
    this.#prefix = prefix;
    this.#process = process;
    this.#leaseMs = leaseMs;
  }

  /**
   * One command a bucket is under way at a time; who comes meanwhile shares the next, and gets an answer of its own. Each command takes some tokens ahead, as
   * many as come in 20 ms, so that a fast tenant does not need one for each event. They are no longer in the bucket: the limit holds.
   */
  take(bucket: string, n: number, limit: BucketLimit): Promise<TakeResult> {
    const { ratePerSecond, burst } = limit;
    const queue = `${bucket}/${ratePerSecond}/${burst}`;
    const ahead = this.#ahead.get(queue);
    if (ahead && ahead.tokens >= n && performance.now() < ahead.untilMs) {
      ahead.tokens -= n;
      return Promise.resolve(TAKEN);
    }
    return new Promise((resolve, reject) => {
      const waiting = this.#takers.get(queue);
      const taker = { n, resolve, reject };
      if (waiting) waiting.push(taker);
      else {
        this.#takers.set(queue, [taker]);
        void this.#takeInTurn(queue, bucket, limit);
      }
    });
  }

  async charge(bucket: string, n: number, { ratePerSecond, burst }: BucketLimit): Promise<void> {
    this.#ahead.delete(`${bucket}/${ratePerSecond}/${burst}`);
    await this.#redis.run(CHARGE, [`{${this.#prefix}:t:${bucket}}`], [ratePerSecond, burst, n]);
  }

  async #takeInTurn(queue: string, bucket: string, { ratePerSecond, burst }: BucketLimit): Promise<void> {
    const key = `{${this.#prefix}:t:${bucket}}`;
    const waiting = this.#takers.get(queue)!;
    while (waiting.length > 0) {
      const takers = waiting.splice(0, TAKERS_AT_A_TIME);
      try {
        const wanted = Math.min(Math.floor((ratePerSecond * AHEAD_MS) / 1_000), Math.floor(burst / 2));
        const args = [ratePerSecond, burst, wanted, ...takers.map(({ n }) => n)];
        const answers = await this.#redis.run(TAKE, [key], args);
        if (!Array.isArray(answers)) throw new TypeError('a script of ours answered something else');
        this.#keepAhead(queue, Number(answers[0]));
        takers.forEach(({ resolve }, index) => {
          const waitMs = Number(answers[index + 1]);
          resolve(waitMs < 0 ? TAKEN : { ok: false, retryAfterMs: waitMs });
        });
      } catch (error) {
        for (const { reject } of takers) reject(error);
      }
    }
    this.#takers.delete(queue);
  }

  /** What was taken ahead and not used within a second is forgotten: the bucket has filled up by more than that. */
  #keepAhead(queue: string, tokens: number): void {
    const now = performance.now();
    const left = this.#ahead.get(queue);
    if (this.#ahead.size > MAX_AHEAD) this.#ahead.clear();
    if (tokens > 0)
      this.#ahead.set(queue, {
        tokens: tokens + (left && now < left.untilMs ? left.tokens : 0),
        untilMs: now + AHEAD_LIFE_MS,
      });
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
