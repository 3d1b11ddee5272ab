import { execFileSync, spawn, type ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { chown, mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer, type Server } from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';

/** How a server ends: asked to, or as if its machine had lost power. */
export type StopHow = 'graceful' | 'kill';

export interface Launch {
  readonly program: string;
  readonly args: readonly string[];
  /** The whole environment of the process: nothing of ours leaks into it. */
  readonly env: Readonly<Record<string, string>>;
  readonly cwd: string;
  /** Chunks of what it writes, for diagnosis. */
  readonly onLog?: ((text: string) => void) | undefined;
}

/** Unprivileged user that runs the servers when we are root: "nobody" on every Linux and macOS. */
const NOBODY = 65_534;
const KEPT_LOG_CHARS = 4_000;
const PROBE_EVERY_MS = 25;
const PROBE_ANSWER_MS = 2_000;

/** Search path of the processes that we start; their own scripts look for erl, sed and the like. */
export const SYSTEM_PATH =
  '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/homebrew/sbin:/opt/homebrew/bin';

/**
 * A server as a child process: in a group of its own, so that Ctrl-C reaches us first and the server is stopped last; under an
 * unprivileged user when we are root; and, on Linux, ended by the kernel when we are killed.
 */
export class LocalProcess {
  readonly pid: number | undefined;
  readonly #child: ChildProcess;
  readonly #exited: Promise<void>;
  #log = '';
  #end: string | undefined;

  constructor({ program, args, env, cwd, onLog }: Launch) {
    const [file, ...rest] = [...tiedToOurLife(), program, ...args] as [string, ...string[]];
    this.#child = spawn(file, rest, {
      cwd,
      env: { ...env },
      stdio: ['ignore', 'pipe', 'pipe'],
      detached: true,
      ...unprivileged(),
    });
    this.pid = this.#child.pid;
    this.#exited = new Promise((resolve) => {
      this.#child.once('exit', (code, signal) => {
        this.#end ??= `ended with ${signal ?? `code ${code}`}`;
        // What it started and left behind. Now, while no other group can have its number.
        this.#killGroup();
        resolve();
      });
      // Without a listener a program that cannot be run would end our process.
      this.#child.once('error', (error) => {
        this.#end ??= error.message;
        resolve();
      });
    });
    for (const stream of [this.#child.stdout, this.#child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        this.#log = (this.#log + text).slice(-KEPT_LOG_CHARS);
        onLog?.(text);
      });
  }

  /** Why it runs no more, or undefined while it does. */
  get end(): string | undefined {
    return this.#end;
  }

  /** The last of what it wrote. */
  get log(): string {
    return this.#log.trim();
  }

  /** Returns when the process has ended: killed with all that it started when it takes longer than `limitMs`. */
  async stop(how: StopHow, limitMs = 15_000): Promise<void> {
    if (how === 'graceful' && this.#end === undefined) {
      this.#child.kill('SIGTERM');
      await Promise.race([this.#exited, delay(limitMs, undefined, { ref: false })]);
    }
    if (this.#end === undefined) this.#killGroup();
    await this.#exited;
  }

  /**
   * Returns when `answers` does, which is asked again and again.
   * @throws Error with the end of the log, when the process ends before or `limitMs` pass
   */
  async untilAnswers(what: string, answers: () => Promise<boolean>, limitMs: number): Promise<void> {
    const deadline = Date.now() + limitMs;
    while (!(await answers())) {
      if (this.#end !== undefined) throw new Error(`${what} ${this.#end} while starting: ${this.log}`);
      if (Date.now() > deadline) throw new Error(`${what} did not answer within ${limitMs} ms: ${this.log}`);
      await delay(PROBE_EVERY_MS);
    }
  }

  #killGroup(): void {
    try {
      if (this.pid !== undefined) process.kill(-this.pid, 'SIGKILL');
    } catch (error) {
      // ESRCH: nobody of the group is left.
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }
}

let lifeline: readonly string[] | undefined;

/** Command that makes the kernel kill what it runs when we vanish; empty where there is none (macOS, BusyBox). */
function tiedToOurLife(): readonly string[] {
  if (lifeline) return lifeline;
  const command = ['/usr/bin/setpriv', '--pdeathsig', 'KILL'];
  try {
    execFileSync(command[0]!, [...command.slice(1), 'true'], { stdio: 'ignore' });
    lifeline = command;
  } catch {
    // Then the server outlives a killed parent, as any child process does.
    lifeline = [];
  }
  return lifeline;
}

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

/** For spawn and its kin: the user that the servers run as when we are root. */
export function unprivileged(): { readonly uid?: number; readonly gid?: number } {
  return isRoot() ? { uid: NOBODY, gid: NOBODY } : {};
}

/** A new folder for one server's files. */
export async function temporaryFolder(label: string): Promise<string> {
  const folder = await mkdtemp(path.join(os.tmpdir(), `relayops-${label}-`));
  await giveAway(folder);
  return folder;
}

/** Makes a file or folder belong to the user that the servers run as. */
export async function giveAway(target: string): Promise<void> {
  if (isRoot()) await chown(target, NOBODY, NOBODY);
}

export async function removeFolder(folder: string): Promise<void> {
  await rm(folder, { recursive: true, force: true, maxRetries: 3 });
}

/**
 * Sends `question` over a new TCP connection to 127.0.0.1.
 * @returns the first bytes of the answer; null when there is none within two seconds
 */
export function askPort(port: number, question: string | Uint8Array): Promise<Buffer | null> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1');
    const end = (answer: Buffer | null): void => {
      socket.destroy();
      resolve(answer);
    };
    socket.setTimeout(PROBE_ANSWER_MS, () => end(null));
    socket
      .once('data', end)
      .on('error', () => end(null))
      .once('close', () => end(null));
    socket.write(question);
  });
}

/** Ports for servers: below the range from which Linux and macOS take ports of outgoing connections (32768 and up). */
const FIRST_PORT = 20_000;
const LAST_PORT = 29_999;

/**
 * Different loopback ports that are free now. Not from the range of outgoing ports: while a server is stopped, a client that keeps
 * dialling its port could otherwise be given that very port and be connected to itself.
 */
export async function freePorts(count: number): Promise<number[]> {
  const taken: Server[] = [];
  try {
    while (taken.length < count) {
      const server = await listenIfFree(
        FIRST_PORT + Math.floor(Math.random() * (LAST_PORT - FIRST_PORT + 1)),
      );
      if (server) taken.push(server);
    }
    return taken.map((server) => (server.address() as { port: number }).port);
  } finally {
    await Promise.all(taken.map((server) => new Promise((resolve) => server.close(resolve))));
  }
}

async function listenIfFree(port: number): Promise<Server | null> {
  const server = createServer();
  try {
    server.listen(port, '127.0.0.1');
    await once(server, 'listening');
    return server;
  } catch {
    return null;
  }
}
