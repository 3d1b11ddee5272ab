import type { Config } from '../../src/config/index.ts';
import { TcpProxy } from '../support/tcp-proxy.ts';
import type { CrashSite } from './crash-site.ts';
import type { RelayChild } from './relay-child.ts';

/** The servers that a process talks to, by their URLs. */
export interface Servers {
  readonly postgres: string;
  readonly rabbitmq: string;
  readonly redis: string;
}

/** The way from one process to each server, which may fail. */
export type Network = { readonly [Server in keyof Servers]: TcpProxy };

export interface SeatOptions {
  readonly site: CrashSite;
  readonly name: string;
  readonly servers: Servers;
  /** Of each process that takes this seat. */
  readonly config: Partial<Config>;
}

/** A place for one process of a fleet: always the same role, address and network, whichever process has it. */
export class Seat {
  readonly name: string;
  readonly network: Network;
  readonly #options: SeatOptions;
  #child: RelayChild | undefined;
  #starts = 0;

  private constructor(options: SeatOptions, network: Network) {
    this.name = options.name;
    this.#options = options;
    this.network = network;
  }

  /** With its network, and without a process. */
  static async make(options: SeatOptions): Promise<Seat> {
    const { postgres, rabbitmq, redis } = options.servers;
    return new Seat(options, {
      postgres: await TcpProxy.start(postgres),
      rabbitmq: await TcpProxy.start(rabbitmq),
      redis: await TcpProxy.start(redis),
    });
  }

  /** The process that has the seat, or had it last. */
  get child(): RelayChild {
    if (!this.#child) throw new Error(`${this.name} was not started`);
    return this.#child;
  }

  /** A new process takes the seat, under a name of its own. */
  async start(change: Partial<Config> = {}): Promise<void> {
    const { site, servers, config } = this.#options;
    const { postgres, rabbitmq, redis } = this.network;
    this.#starts += 1;
    this.#child = await site.start(`${this.name}.${this.#starts}`, {
      ...config,
      'database.url': postgres.through(servers.postgres),
      'rabbitmq.url': rabbitmq.through(servers.rabbitmq),
      'redis.url': redis.through(servers.redis),
      ...change,
    });
  }

  /** SIGKILL. @returns how many deliveries the process had leased */
  async kill(): Promise<number> {
    const { child } = this;
    await child.end('SIGKILL');
    return this.#options.site.leasedByTheDead(child.instance);
  }

  /** SIGTERM. @throws Error when it does not end with exit code 0 */
  async stop(): Promise<void> {
    const { child } = this;
    const { code, signal } = await child.end('SIGTERM');
    if (code !== 0) throw new Error(`${child.instance} ended with ${signal ?? code}: ${child.log}`);
  }

  /** A network that works, and a process that runs, whatever was done to them. */
  async mend(): Promise<void> {
    for (const way of Object.values(this.network)) way.heal();
    if (this.child.isRunning) this.child.signal('SIGCONT');
    else await this.start();
  }

  async close(): Promise<void> {
    await this.#child?.end('SIGKILL');
    await Promise.all(Object.values(this.network).map((way) => way.close()));
  }
}
