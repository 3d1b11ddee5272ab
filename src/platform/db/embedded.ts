import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { chown, mkdir, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { exists, isRoot, prepareBinaries } from './embedded-binaries.ts';

/**
 * A real PostgreSQL server from the package registry, run as a child process on a loopback port. Its data stays in `dataDir`
 * between runs.
 *
 * PostgreSQL refuses to run as root. When we are root, the server runs as an unprivileged user, from a copy of its
 * binaries that this user can read, whatever the permissions of the folders above the checkout are.
 */
export interface EmbeddedOptions {
  readonly dataDir: string;
  /** Fixed port, or a free one when absent. */
  readonly port?: number;
  /** Settings for postgresql.conf in addition to ours, e.g. `{ max_connections: '200' }`. */
  readonly settings?: Readonly<Record<string, string>>;
  /** Lines of the server's log, for diagnosis. */
  readonly onLog?: (line: string) => void;
}

/** Unprivileged user that owns the server when we are root: "nobody" on every Linux and macOS. */
const NOBODY = 65_534;
const START_TIMEOUT_MS = 30_000;
const SUPERUSER = 'postgres';

export class EmbeddedPostgres {
  readonly url: string;
  readonly port: number;
  readonly #binaries: string;
  readonly #options: EmbeddedOptions;
  #server: ChildProcess | undefined;
  #adoptedPid: number | undefined;

  private constructor(options: EmbeddedOptions, binaries: string, port: number) {
    this.#options = options;
    this.#binaries = binaries;
    this.port = port;
    this.url = `postgres://${SUPERUSER}@127.0.0.1:${port}/postgres`;
  }

  /**
   * Prepares binaries and data folder (initdb on first use, under a second) and starts the server. When one runs on this data already
   * it is used: it is left alone at the end while the process that started it lives, and taken over when that one has vanished.
   */
  static async start(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
    const binaries = await prepareBinaries();
    const running = await runningServer(options.dataDir);
    if (running) return EmbeddedPostgres.#join(options, binaries, running);
    const instance = new EmbeddedPostgres(options, binaries, options.port ?? (await freePort()));
    await instance.#initialise();
    await instance.startServer();
    return instance;
  }

  static async #join(
    options: EmbeddedOptions,
    binaries: string,
    running: RunningServer,
  ): Promise<EmbeddedPostgres> {
    const instance = new EmbeddedPostgres(options, binaries, running.port);
    await instance.#untilReady(() =>
      isAlive(running.pid) ? undefined : 'the server that was running has ended',
    );
    if (running.ownerPid === null || !isAlive(running.ownerPid)) {
      instance.#adoptedPid = running.pid;
      await instance.#writeOwner();
    }
    return instance;
  }

  /** Starts the server again after `stopServer`, on the same port and data. */
  async startServer(): Promise<void> {
    if (this.#server) return;
    const server = spawn(
      path.join(this.#binaries, 'bin', 'postgres'),
      ['-D', this.#options.dataDir, '-p', String(this.port)],
      {
        stdio: ['ignore', 'ignore', 'pipe'],
        // In a group of its own, so that Ctrl-C reaches us first and the server is stopped last.
        detached: true,
        ...unprivileged(),
      },
    );
    this.#server = server;
    let log = '';
    let unstarted: Error | undefined;
    // Without a listener a program that cannot be run would end the process.
    server.on('error', (error) => (unstarted ??= error));
    server.stderr.setEncoding('utf8').on('data', (chunk: string) => {
      log = (log + chunk).slice(-4000);
      this.#options.onLog?.(chunk.trimEnd());
    });
    await this.#untilReady(() => unstarted?.message ?? (server.exitCode === null ? undefined : log.trim()));
    await this.#writeOwner();
  }

  /** @param how fast ends open sessions; immediate is a crash, recovered from the log at the next start */
  async stopServer(how: 'fast' | 'immediate' = 'fast'): Promise<void> {
    const signal = how === 'fast' ? 'SIGINT' : 'SIGQUIT';
    const server = this.#server;
    this.#server = undefined;
    if (server?.exitCode === null) {
      const gone = once(server, 'exit');
      server.kill(signal);
      await gone;
    }
    if (this.#adoptedPid !== undefined) await stopAdopted(this.#adoptedPid, signal);
    this.#adoptedPid = undefined;
  }

  async #writeOwner(): Promise<void> {
    await writeFile(path.join(this.#options.dataDir, OWNER_FILE), String(process.pid));
  }

  async #initialise(): Promise<void> {
    const { dataDir } = this.#options;
    if (await exists(path.join(dataDir, 'PG_VERSION'))) return;
    await mkdir(dataDir, { recursive: true, mode: 0o700 });
    await giveAway(dataDir);
    const args = [
      '-D',
      dataDir,
      '-U',
      SUPERUSER,
      '--auth=trust',
      '--encoding=UTF8',
      '--locale=C',
      '--no-instructions',
    ];
    const init = spawn(path.join(this.#binaries, 'bin', 'initdb'), args, {
      stdio: ['ignore', 'ignore', 'pipe'],
      ...unprivileged(),
    });
    let log = '';
    init.stderr.setEncoding('utf8').on('data', (chunk: string) => (log += chunk));
    const [code] = (await once(init, 'exit')) as [number | null];
    if (code !== 0) throw new Error(`initdb failed in ${dataDir}: ${log.trim()}`);
    const settings = {
      listen_addresses: '127.0.0.1',
      unix_socket_directories: '',
      max_connections: '100',
      shared_buffers: '256MB',
      max_wal_size: '4GB',
      timezone: 'UTC',
      log_timezone: 'UTC',
      ...this.#options.settings,
    };
    const lines = Object.entries(settings).map(([key, value]) => `${key} = '${value.replaceAll("'", "''")}'`);
    await writeFile(path.join(dataDir, 'postgresql.auto.conf'), lines.join('\n') + '\n');
    await giveAway(path.join(dataDir, 'postgresql.auto.conf'));
  }

  /** @param ended answers why the server has ended, or undefined while it runs */
  async #untilReady(ended: () => string | undefined): Promise<void> {
    const deadline = Date.now() + START_TIMEOUT_MS;
    for (;;) {
      const reason = ended();
      if (reason !== undefined) {
        this.#server = undefined;
        throw new Error(`PostgreSQL ended while starting (data in ${this.#options.dataDir}): ${reason}`);
      }
      const client = new pg.Client({ connectionString: this.url, connectionTimeoutMillis: 1000 });
      try {
        await client.connect();
        await client.end();
        return;
      } catch (error) {
        if (Date.now() > deadline)
          throw new Error(`PostgreSQL did not answer within ${START_TIMEOUT_MS} ms`, { cause: error });
        await delay(25);
      }
    }
  }
}

/** Beside the server's own files: the process that stops it. */
const OWNER_FILE = 'relayops-owner.pid';

interface RunningServer {
  readonly pid: number;
  readonly port: number;
  readonly ownerPid: number | null;
}

/** The server that runs on this data now, by PostgreSQL's own lock file: process ID in line 1, port in line 4. */
async function runningServer(dataDir: string): Promise<RunningServer | undefined> {
  const lock = await readFile(path.join(dataDir, 'postmaster.pid'), 'utf8').catch(
    (error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT') return '';
      throw error;
    },
  );
  const lines = lock.split('\n');
  const pid = Number(lines[0]);
  const port = Number(lines[3]);
  if (!(pid > 0) || !(port > 0) || !isAlive(pid)) return undefined;
  const owner = Number(await readFile(path.join(dataDir, OWNER_FILE), 'utf8').catch(() => '0'));
  return { pid, port, ownerPid: owner > 0 ? owner : null };
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    // EPERM: it lives, but is somebody else's.
    return (error as NodeJS.ErrnoException).code === 'EPERM';
  }
}

async function stopAdopted(pid: number, signal: NodeJS.Signals): Promise<void> {
  if (isAlive(pid)) process.kill(pid, signal);
  const deadline = Date.now() + START_TIMEOUT_MS;
  while (isAlive(pid) && Date.now() < deadline) await delay(20);
}

/** Where data that is kept between runs lies: beside the checkout, or where the unprivileged user can reach it. */
export function keptDataDir(checkout: string): string {
  if (!isRoot()) return path.join(checkout, '.relayops', 'postgres');
  const name = createHash('sha256').update(checkout).digest('hex').slice(0, 12);
  return path.join('/var/lib/relayops', name, 'postgres');
}

/** A new folder for a server that is thrown away. */
export function temporaryDataDir(label: string): string {
  return path.join(os.tmpdir(), `relayops-${label}-${process.pid}-${Date.now().toString(36)}`);
}

/** Finds a loopback TCP port that is free now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const address = server.address();
  server.close();
  await once(server, 'close');
  if (address === null || typeof address === 'string') throw new Error('no TCP address');
  return address.port;
}

function unprivileged(): { uid?: number; gid?: number } {
  return isRoot() ? { uid: NOBODY, gid: NOBODY } : {};
}

async function giveAway(target: string): Promise<void> {
  if (isRoot()) await chown(target, NOBODY, NOBODY);
}
