import { execFile } from 'node:child_process';
import { chmod, mkdir, writeFile } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import {
  askPort,
  freePorts,
  giveAway,
  LocalProcess,
  removeFolder,
  SYSTEM_PATH,
  temporaryFolder,
  type StopHow,
  unprivileged,
} from './local-process.ts';
import { requireProgram } from './packages.ts';

export interface LocalRabbitMqOptions {
  /** Lines for rabbitmq.conf in addition to ours, e.g. `{ 'channel_max': '100' }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** What the server writes, for diagnosis. */
  readonly onLog?: (text: string) => void;
}

/** About 6 s on two cores; a busy machine takes its time. */
const START_LIMIT_MS = 60_000;
const CONTROL_LIMIT_MS = 30_000;
const AMQP_0_9_1 = Uint8Array.of(0x41, 0x4d, 0x51, 0x50, 0, 0, 9, 1);
const METHOD_FRAME = 1;

/** Erlang: two schedulers that sleep when there is nothing to do, and no shell on standard input. */
const ERLANG_ARGS =
  '-noinput +S 2:2 +sbwt none +sbwtdcpu none +sbwtdio none -kernel inet_dist_use_interface {127,0,0,1}';

const SETTINGS = {
  'vm_memory_high_watermark.absolute': '1GB',
  'disk_free_limit.absolute': '50MB',
  // A statistics round for each connection and queue every 5 s is for the management plugin, which is off.
  collect_statistics_interval: '60000',
  'log.console': 'true',
  'log.console.level': 'info',
  'log.connection.level': 'warning',
  'log.file': 'false',
};

/**
 * A real RabbitMQ broker from the system's package, as a child process on loopback ports, with its data, settings and cookie in a
 * folder of its own. Several run beside each other and beside the system's: each has its own port mapper (epmd) too.
 */
export class LocalRabbitMq {
  /** User `guest`, virtual host `/`. */
  readonly url: string;
  readonly port: number;
  readonly folder: string;
  readonly #options: LocalRabbitMqOptions;
  readonly #env: Readonly<Record<string, string>>;
  #portMapper: LocalProcess | undefined;
  #server: LocalProcess | undefined;

  private constructor(options: LocalRabbitMqOptions, folder: string, ports: readonly number[]) {
    const [amqp, distribution, portMapper] = ports as [number, number, number];
    this.#options = options;
    this.folder = folder;
    this.port = amqp;
    this.url = `amqp://guest:guest@127.0.0.1:${amqp}`;
    const at = (name: string): string => path.join(folder, name);
    this.#env = {
      PATH: SYSTEM_PATH,
      LANG: 'C.UTF-8',
      HOME: at('home'),
      ERL_EPMD_PORT: String(portMapper),
      ERL_EPMD_ADDRESS: '127.0.0.1',
      RABBITMQ_NODENAME: `relayops-${amqp}@localhost`,
      RABBITMQ_DIST_PORT: String(distribution),
      RABBITMQ_MNESIA_BASE: at('mnesia'),
      RABBITMQ_LOG_BASE: at('log'),
      RABBITMQ_LOGS: '-',
      RABBITMQ_CONFIG_FILE: at('rabbitmq.conf'),
      RABBITMQ_CONF_ENV_FILE: at('rabbitmq-env.conf'),
      RABBITMQ_ENABLED_PLUGINS_FILE: at('enabled_plugins'),
      RABBITMQ_PID_FILE: at('rabbitmq.pid'),
      RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS: ERLANG_ARGS,
      RABBITMQ_CTL_ERL_ARGS: '-kernel inet_dist_use_interface {127,0,0,1}',
      // The start script then becomes the server instead of waiting for it, so that signals reach the server itself.
      RABBITMQ_ALLOW_INPUT: 'true',
    };
  }

  /**
   * Returns when the broker answers AMQP.
   * @throws ServiceUnavailable when it is not installed; Error with the end of its log when it does not come up
   */
  static async start(options: LocalRabbitMqOptions = {}): Promise<LocalRabbitMq> {
    await requireProgram('rabbitmq', 'rabbitmq-server');
    const folder = await temporaryFolder('rabbitmq');
    const broker = new LocalRabbitMq(options, folder, await freePorts(3));
    try {
      await broker.#prepare();
      await broker.startAgain();
      return broker;
    } catch (error) {
      await broker.dispose();
      throw error;
    }
  }

  /** Starts after `stop`, on the same port and data. */
  async startAgain(): Promise<void> {
    if (this.#server && this.#server.end === undefined) return;
    const program = await requireProgram('rabbitmq', 'rabbitmq-server');
    await this.#startPortMapper();
    const server = new LocalProcess({
      program,
      args: [],
      env: this.#env,
      cwd: this.folder,
      onLog: this.#options.onLog,
    });
    this.#server = server;
    await server.untilAnswers('RabbitMQ', () => this.#answersAmqp(), START_LIMIT_MS);
  }

  /** @param how graceful closes connections and writes what is in memory (about 1 s); kill is a crash */
  async stop(how: StopHow): Promise<void> {
    const server = this.#server;
    this.#server = undefined;
    await server?.stop(how);
  }

  /** Closes every client's connection from the server's side; the server stays. Takes about a second. */
  async closeAllConnections(reason = 'closed by a test'): Promise<void> {
    await this.control(['close_all_connections', reason]);
  }

  /**
   * Runs rabbitmqctl against this broker, e.g. `['set_vm_memory_high_watermark', '0.000001']` to block publishers.
   * @returns its output; @throws Error with its output when it fails
   */
  async control(args: readonly string[]): Promise<string> {
    const program = await requireProgram('rabbitmq', 'rabbitmqctl');
    const { stdout } = await promisify(execFile)(program, ['--quiet', ...args], {
      env: this.#env,
      cwd: this.folder,
      timeout: CONTROL_LIMIT_MS,
      ...unprivileged(),
    });
    return stdout.trim();
  }

  /** Ends the broker and its port mapper and removes the folder. */
  async dispose(): Promise<void> {
    await this.stop('kill');
    await this.#portMapper?.stop('kill');
    this.#portMapper = undefined;
    await removeFolder(this.folder);
  }

  /** Ours and in the foreground: left alone, the first Erlang node starts one that stays behind for ever. */
  async #startPortMapper(): Promise<void> {
    if (this.#portMapper && this.#portMapper.end === undefined) return;
    const port = Number(this.#env.ERL_EPMD_PORT);
    const mapper = new LocalProcess({
      program: await requireProgram('rabbitmq', 'epmd'),
      args: ['-port', String(port), '-address', '127.0.0.1'],
      env: this.#env,
      cwd: this.folder,
      onLog: this.#options.onLog,
    });
    this.#portMapper = mapper;
    // NAMES_REQ of the port mapper's protocol: length 1, request 'n'.
    const answers = async (): Promise<boolean> => (await askPort(port, Uint8Array.of(0, 1, 0x6e))) !== null;
    await mapper.untilAnswers('epmd', answers, START_LIMIT_MS);
  }

  async #answersAmqp(): Promise<boolean> {
    const answer = await askPort(this.port, AMQP_0_9_1);
    return answer?.[0] === METHOD_FRAME;
  }

  async #prepare(): Promise<void> {
    for (const folder of ['home', 'mnesia', 'log']) {
      await mkdir(path.join(this.folder, folder));
      await giveAway(path.join(this.folder, folder));
    }
    const settings = { 'listeners.tcp.1': `127.0.0.1:${this.port}`, ...SETTINGS, ...this.#options.settings };
    await this.#write(
      'rabbitmq.conf',
      Object.entries(settings)
        .map(([key, value]) => `${key} = ${value}\n`)
        .join(''),
    );
    await this.#write('rabbitmq-env.conf', '');
    await this.#write('enabled_plugins', '[].\n');
    await this.#write('home/.erlang.cookie', crypto.randomUUID());
    await chmod(path.join(this.folder, 'home/.erlang.cookie'), 0o400);
  }

  async #write(name: string, text: string): Promise<void> {
    const file = path.join(this.folder, name);
    await writeFile(file, text);
    await giveAway(file);
  }
}
