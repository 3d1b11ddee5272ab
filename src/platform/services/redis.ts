import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import {
  askPort,
  freePorts,
  LocalProcess,
  removeFolder,
  SYSTEM_PATH,
  temporaryFolder,
  type StopHow,
} from './local-process.ts';
import { requireProgram } from './packages.ts';

export interface LocalRedisOptions {
  /** Directives in addition to ours, e.g. `{ maxmemory: '10mb' }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** What the server writes, for diagnosis. */
  readonly onLog?: (text: string) => void;
}

/** Far above what it needs (50 ms): a busy machine takes its time. */
const START_LIMIT_MS = 20_000;

/** A real Redis server from the system's package, as a child process on a loopback port. Nothing is kept: a stop empties it. */
export class LocalRedis {
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  readonly #options: LocalRedisOptions;
  #server: LocalProcess | undefined;

  private constructor(options: LocalRedisOptions, folder: string, port: number) {
    this.#options = options;
    this.folder = folder;
    this.port = port;
    this.url = `redis://127.0.0.1:${port}`;
  }

  /**
   * Returns when the server answers.
   * @throws ServiceUnavailable when it is not installed; Error with the end of its log when it does not come up
   */
  static async start(options: LocalRedisOptions = {}): Promise<LocalRedis> {
    await requireProgram('redis', 'redis-server');
    const [port] = (await freePorts(1)) as [number];
    const redis = new LocalRedis(options, await temporaryFolder('redis'), port);
    try {
      await redis.startAgain();
      return redis;
    } catch (error) {
      await redis.dispose();
      throw error;
    }
  }

  /** Starts after `stop`, on the same port and empty. */
  async startAgain(): Promise<void> {
    if (this.#server && this.#server.end === undefined) return;
    const settings = {
      port: String(this.port),
      bind: '127.0.0.1',
      dir: this.folder,
      save: '',
      appendonly: 'no',
      daemonize: 'no',
      ...this.#options.settings,
    };
    const server = new LocalProcess({
      program: await requireProgram('redis', 'redis-server'),
      args: Object.entries(settings).flatMap(([key, value]) => [`--${key}`, value]),
      env: { PATH: SYSTEM_PATH, LANG: 'C.UTF-8' },
      cwd: this.folder,
      onLog: this.#options.onLog,
    });
    this.#server = server;
    await server.untilAnswers('Redis', async () => (await this.ask('PING')) === '+PONG', START_LIMIT_MS);
  }

  async stop(how: StopHow): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await server?.stop(how);
  }

  /** Ends the server and removes the folder. */
  async dispose(): Promise<void> {
    await this.stop('kill');
    await removeFolder(this.folder);
  }

  /** Sends one line on a new connection. @returns the answer as the protocol has it, e.g. `+PONG`; empty when there is none */
  async ask(line: string): Promise<string> {
    return (await askPort(this.port, `${line}\r\n`))?.toString().trim() ?? '';
  }
}

const NODES = 3;
const JOIN_LIMIT_MS = 20_000;

/** Three Redis masters that share the slots: for tests of keys that must lie in one slot. */
export class LocalRedisCluster {
  /** Of the first node; a client finds the others. */
  readonly url: string;
  readonly nodes: readonly LocalRedis[];
  /** On which the nodes talk to each other. By default ten thousand above the others, where outgoing connections have theirs. */
  readonly #busPorts: readonly number[];

  private constructor(nodes: readonly LocalRedis[], busPorts: readonly number[]) {
    this.nodes = nodes;
    this.#busPorts = busPorts;
    this.url = nodes[0]!.url;
  }

  /** Returns when all slots are served. @throws as LocalRedis.start */
  static async start(options: LocalRedisOptions = {}): Promise<LocalRedisCluster> {
    const settings = { 'cluster-enabled': 'yes', 'cluster-node-timeout': '2000', ...options.settings };
    const busPorts = await freePorts(NODES);
    const started = await Promise.allSettled(
      busPorts.map((busPort) =>
        LocalRedis.start({ ...options, settings: { ...settings, 'cluster-port': String(busPort) } }),
      ),
    );
    const cluster = new LocalRedisCluster(
      started.filter((one) => one.status === 'fulfilled').map((one) => one.value),
      busPorts,
    );
    try {
      const failed = started.find((one) => one.status === 'rejected');
      if (failed) throw failed.reason;
      await cluster.#join();
      return cluster;
    } catch (error) {
      await cluster.dispose();
      throw error;
    }
  }

  async dispose(): Promise<void> {
    await Promise.all(this.nodes.map((node) => node.dispose()));
  }

  async #join(): Promise<void> {
    const addresses = this.nodes.map((node, n) => `127.0.0.1:${node.port}@${this.#busPorts[n]}`);
    const cli = await requireProgram('redis', 'redis-cli');
    const args = ['--cluster', 'create', ...addresses, '--cluster-yes'];
    await promisify(execFile)(cli, args, { timeout: JOIN_LIMIT_MS });
    for (const node of this.nodes) await untilServing(node);
  }
}

async function untilServing(node: LocalRedis): Promise<void> {
  const deadline = Date.now() + JOIN_LIMIT_MS;
  while (!(await node.ask('CLUSTER INFO')).includes('cluster_state:ok')) {
    if (Date.now() > deadline) throw new Error(`the cluster did not form within ${JOIN_LIMIT_MS} ms`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
