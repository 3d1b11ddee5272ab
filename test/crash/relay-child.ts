import { type ChildProcess, spawn } from 'node:child_process';
import { projectRoot } from '../../src/app/paths.ts';
import { type Config, environmentName, type KeyName } from '../../src/config/index.ts';

/** How a process ended: its exit code, or the signal that ended it. */
export interface Ending {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

const START_LIMIT_MS = 30_000;
const KEPT_LOG = 8_000;

/** `relayops start` as a process of its own, which may be killed. */
export class RelayChild {
  readonly instance: string;
  readonly #process: ChildProcess;
  readonly #ended: Promise<Ending>;
  #log = '';

  private constructor(config: Partial<Config>) {
    this.instance = config.instance ?? '';
    this.#process = spawn(process.execPath, ['src/cli/main.ts', 'start'], {
      cwd: projectRoot,
      env: { PATH: process.env['PATH'], ...environmentOf(config) },
      stdio: ['ignore', 'pipe', 'pipe'],
    });
    this.#ended = new Promise((resolve) => {
      this.#process.once('exit', (code, signal) => resolve({ code, signal }));
    });
    for (const stream of [this.#process.stdout!, this.#process.stderr!])
      stream.setEncoding('utf8').on('data', (text: string) => {
        this.#log = (this.#log + text).slice(-KEPT_LOG);
      });
  }

  /** Resolves when it serves. @throws Error with its output when it ends before that, or takes too long */
  static async start(config: Partial<Config>): Promise<RelayChild> {
    const child = new RelayChild(config);
    const deadline = AbortSignal.timeout(START_LIMIT_MS);
    const serving = new Promise<boolean>((resolve) => {
      child.#process.stdout!.on('data', () => {
        if (child.#log.includes('is serving at')) resolve(true);
      });
      void child.#ended.then(() => resolve(false));
      deadline.addEventListener('abort', () => resolve(false), { once: true });
    });
    if (await serving) return child;
    await child.end('SIGKILL');
    throw new Error(`${child.instance} did not start: ${child.#log}`);
  }

  /** What it wrote last. */
  get log(): string {
    return this.#log;
  }

  /** Sends the signal and waits for the end. Does nothing when it has ended. */
  async end(signal: NodeJS.Signals): Promise<Ending> {
    if (this.#process.exitCode === null && this.#process.signalCode === null) this.#process.kill(signal);
    return this.#ended;
  }
}

function environmentOf(config: Partial<Config>): Record<string, string> {
  const entries = Object.entries(config) as [KeyName, Config[KeyName]][];
  return Object.fromEntries(
    entries.map(([key, value]) => [
      environmentName(key),
      Array.isArray(value) ? value.join(',') : String(value),
    ]),
  );
}
