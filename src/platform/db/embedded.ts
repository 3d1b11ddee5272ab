import { spawn, type ChildProcess } from 'node:child_process';
import { createHash } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { isRoot, prepareBinaries } from './embedded-binaries.ts';
import { isInitialised, prepareHome, prepareServerFiles, serverFiles } from './embedded-folder.ts';
import { SUPERUSER, initialise, knownPassword, secureServer, unprivileged } from './embedded-password.ts';
import {
  type RunningServer,
  hasOwner,
  isSame,
  recordServer,
  runningServer,
  stopByPid,
} from './embedded-running.ts';
import { upgradeLayout } from './embedded-upgrade.ts';

/**
 * A real PostgreSQL server from the package registry, run as a child process on a loopback port. Its data and its password stay in
 * `dataDir` between runs (embedded-folder.ts); everybody needs the password (SCRAM).
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

const START_TIMEOUT_MS = 30_000;
/** SQLSTATE invalid_password. */
const WRONG_PASSWORD = '28P01';

export class EmbeddedPostgres {
  /** Holds the password: never to be logged. */
  readonly url: string;
  readonly port: number;
  readonly #binaries: string;
  readonly #options: EmbeddedOptions;
  #server: ChildProcess | undefined;
  #adoptedPid: number | undefined;

  private constructor(options: EmbeddedOptions, binaries: string, port: number, password: string) {
    this.#options = options;
    this.#binaries = binaries;
    this.port = port;
    this.url = `postgres://${SUPERUSER}:${password}@127.0.0.1:${port}/postgres`;
  }

  /**
   * Prepares binaries and data folder (initdb on first use, under a second) and starts the server. When one runs on this data already
   * it is used: it is left alone at the end while the process that started it lives, and taken over when that one has vanished.
   */
  static async start(options: EmbeddedOptions): Promise<EmbeddedPostgres> {
    const { dataDir } = options;
    await prepareDataDir(dataDir);
    const binaries = await prepareBinaries();
    const running = await runningServer(dataDir);
    const known = await knownPassword(dataDir);
    if (running && known !== null) return EmbeddedPostgres.#join(options, binaries, running, known);
    await prepareServerFiles(dataDir);
    const password = (await isInitialised(dataDir))
      ? (known ?? (await secureServer(dataDir, binaries)))
      : await initialise(dataDir, binaries, { ...SETTINGS, ...options.settings });
    const instance = new EmbeddedPostgres(options, binaries, options.port ?? (await freePort()), password);
    await instance.startServer();
    return instance;
  }

  static async #join(
    options: EmbeddedOptions,
    binaries: string,
    running: RunningServer,
    password: string,
  ): Promise<EmbeddedPostgres> {
    const instance = new EmbeddedPostgres(options, binaries, running.port, password);
    await instance.#untilReady(async () =>
      (await isSame(running.pid, running.started)) ? undefined : 'the server that was running has ended',
    );
    if (!(await hasOwner(running))) {
      instance.#adoptedPid = running.pid;
      await recordServer(options.dataDir, running.pid, running.port);
    }
    return instance;
  }

  /** Starts the server again after `stopServer`, on the same port and data. */
  async startServer(): Promise<void> {
    if (this.#server) return;
    const server = spawn(
      path.join(this.#binaries, 'bin', 'postgres'),
      ['-D', serverFiles(this.#options.dataDir), '-p', String(this.port)],
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
    if (server.pid !== undefined) await recordServer(this.#options.dataDir, server.pid, this.port);
    await this.#untilReady(() => unstarted?.message ?? (server.exitCode === null ? undefined : log.trim()));
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
    if (this.#adoptedPid !== undefined) await stopByPid(this.#adoptedPid, signal);
    this.#adoptedPid = undefined;
  }

  /** @param ended answers why the server has ended, or undefined while it runs */
  async #untilReady(ended: () => string | undefined | Promise<string | undefined>): Promise<void> {
    const deadline = performance.now() + START_TIMEOUT_MS;
    for (;;) {
      const reason = await ended();
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
        if ((error as { code?: unknown }).code === WRONG_PASSWORD)
          throw new Error(
            `the embedded PostgreSQL refuses the password in ${this.#options.dataDir}: restore the file database-password, or stop all processes that use the folder and remove the file to have a new password set`,
            { cause: error },
          );
        if (performance.now() > deadline)
          throw new Error(`PostgreSQL did not answer within ${START_TIMEOUT_MS} ms`, { cause: error });
        await delay(25);
      }
    }
  }
}

const SETTINGS: Readonly<Record<string, string>> = {
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
  max_connections: '100',
  shared_buffers: '256MB',
  max_wal_size: '4GB',
  timezone: 'UTC',
  log_timezone: 'UTC',
};

/** Makes the data folder, or brings one of a version before into today's form. @throws Error when it cannot be trusted */
export async function prepareDataDir(dataDir: string): Promise<void> {
  await upgradeLayout(dataDir);
  await prepareHome(dataDir);
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
