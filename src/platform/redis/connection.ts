import { Cluster, Redis } from 'ioredis';
import type { Script } from './script.ts';

export interface RedisConnectionOptions {
  /** `redis://user:password@host:port/database`, or `rediss://…` for TLS. */
  readonly url: string;
  /** Whether `url` names a node of a Redis Cluster; the others are found by it. */
  readonly cluster: boolean;
  /** Longest wait for the answer to one command. */
  readonly timeoutMs: number;
  /** Connected and ready for commands: the first time and after each loss. */
  readonly onUp: () => void;
  /** What went wrong with the connection; the same trouble is told once in half a minute, or again after the connection was up. */
  readonly onError: (error: Error) => void;
}

/** Redis gave no answer: not connected, connection lost, or too slow. Whether the command was run is not known. */
export class RedisUnavailable extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'RedisUnavailable';
  }
}

const FIRST_PAUSE_MS = 50;
const LONGEST_PAUSE_MS = 1_000;
/** Time-outs without a byte, while commands wait, after which a connection is given up. More than a busy moment of ours takes. */
const SILENT_TIMEOUTS = 4;
const TELL_AGAIN_MS = 30_000;
const MAX_TOLD = 20;
/** Time for the last bytes before a connection that is given up is torn down. */
const DISCONNECT_MS = 200;

/**
 * One Redis server or Redis Cluster. Commands fail at once while it is away and are never sent twice; the connection is made anew for ever,
 * with pauses of up to a second.
 *
 * Commands are written as they come, in their order, and share a round trip because nobody waits in between. ioredis' automatic pipelines
 * are off: they cost as much CPU (measured: 50 scripts in 0.4 ms either way), have one pipeline in flight at a time, and keep what
 * waits for it from being timed.
 */
export class RedisConnection {
  readonly #client: Redis | Cluster;
  readonly #timeoutMs: number;
  /** When each trouble was told last, by its message. */
  readonly #told = new Map<string, number>();

  constructor({ url, cluster, timeoutMs, onUp, onError }: RedisConnectionOptions) {
    this.#timeoutMs = timeoutMs;
    this.#client = cluster ? connectCluster(url, timeoutMs) : connectServer(url, timeoutMs);
    this.#client.on('ready', () => {
      this.#told.clear();
      onUp();
    });
    // Without a listener ioredis writes them to the console.
    const observe = (error: Error): void => {
      if (this.#isNews(error.message)) onError(error);
    };
    this.#client.on('error', observe);
    this.#client.on('node error', observe);
  }

  get up(): boolean {
    return this.#client.status === 'ready';
  }

  /**
   * Runs a script by its digest, and by its text where the server does not know it yet. All keys must share a hash tag.
   * @throws RedisUnavailable; Error with what the server said against it
   */
  async run(script: Script, keys: readonly string[], args: readonly (string | number)[]): Promise<unknown> {
    if (!this.up) throw new RedisUnavailable('not connected');
    return this.#inTime(this.#evaluate(script, [...keys, ...args], keys.length));
  }

  /** Ends the connection without waiting for answers. */
  close(): void {
    this.#client.disconnect();
  }

  #isNews(message: string): boolean {
    const now = performance.now();
    for (const [told, atMs] of this.#told) if (now - atMs > TELL_AGAIN_MS) this.#told.delete(told);
    if (this.#told.has(message) || this.#told.size >= MAX_TOLD) return false;
    this.#told.set(message, now);
    return true;
  }

  async #evaluate(script: Script, keysAndArgs: (string | number)[], keyCount: number): Promise<unknown> {
    try {
      const known = this.#client.evalsha(script.sha1, keyCount, ...keysAndArgs);
      return await known.catch((error: unknown) => {
        if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw error;
        return this.#client.eval(script.lua, keyCount, ...keysAndArgs);
      });
    } catch (error) {
      throw asUnavailable(error);
    }
  }

  #inTime<T>(answer: Promise<T>): Promise<T> {
    return new Promise((resolve, reject) => {
      const giveUp = (): void => reject(new RedisUnavailable(`no answer within ${this.#timeoutMs} ms`));
      // The answer may be there, unread, because this process was busy: sockets are read between timers and immediates.
      const timer = setTimeout(() => setImmediate(giveUp), this.#timeoutMs);
      void answer.then(resolve, reject).finally(() => clearTimeout(timer));
    });
  }
}

function commonOptions(timeoutMs: number) {
  return {
    connectTimeout: Math.max(1_000, timeoutMs),
    disconnectTimeout: DISCONNECT_MS,
    // The other side may have vanished without a word: make the connection anew.
    socketTimeout: SILENT_TIMEOUTS * timeoutMs,
    autoResendUnfulfilledCommands: false,
    maxRetriesPerRequest: 0,
  };
}

function pause(attempt: number): number {
  const bound = Math.min(LONGEST_PAUSE_MS, FIRST_PAUSE_MS * 2 ** Math.min(attempt - 1, 10));
  return bound / 2 + (Math.random() * bound) / 2;
}

function connectServer(url: string, timeoutMs: number): Redis {
  return new Redis(url, { ...commonOptions(timeoutMs), enableOfflineQueue: false, retryStrategy: pause });
}

function connectCluster(url: string, timeoutMs: number): Cluster {
  const { protocol, hostname, port, username, password } = new URL(url);
  const secure = protocol === 'rediss:';
  const node = { host: hostname.replace(/^\[|\]$/g, ''), port: Number(port || 6379) };
  return new Cluster([node], {
    enableOfflineQueue: false,
    clusterRetryStrategy: pause,
    slotsRefreshTimeout: SILENT_TIMEOUTS * timeoutMs,
    // With TLS, nodes are dialled by the name on their certificate.
    ...(secure ? { dnsLookup: (address, done) => done(null, address) } : {}),
    redisOptions: {
      ...commonOptions(timeoutMs),
      ...(username ? { username: decodeURIComponent(username) } : {}),
      ...(password ? { password: decodeURIComponent(password) } : {}),
      ...(secure ? { tls: {} } : {}),
    },
  });
}

/** What Redis itself says is a ReplyError; the rest is ioredis' way of saying that there is no connection. */
function asUnavailable(error: unknown): unknown {
  if (!(error instanceof Error) || error.name === 'ReplyError') return error;
  const isLost = error.name === 'MaxRetriesPerRequestError' || error.message === 'Connection is closed.';
  return new RedisUnavailable(isLost ? 'the connection was lost' : error.message, { cause: error });
}
