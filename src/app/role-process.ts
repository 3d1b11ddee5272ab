import { type ChildProcess, fork } from 'node:child_process';
import path from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Config, environmentOf } from '../config/index.ts';

/** One process of RelayOps beside this one, on the same machine. */
export interface RoleProcess {
  /** Where its API listens; in a role without one, probes and metrics. */
  readonly url: string;
  signal(name: NodeJS.Signals): void;
  /** Stops it gracefully. @throws Error with what it wrote last when it ended in another way */
  stop(): Promise<void>;
}

const START_LIMIT_MS = 60_000;
const KEPT_LOG = 4_000;
const SERVING = /is serving at (\S+)/;

/**
 * Starts `relayops start` with this configuration as a process of its own; resolves when it serves. It gets its configuration by its environment,
 * as on any machine, and nothing else of this process's.
 * @throws Error with what it wrote, when it ends before that or takes longer than a minute
 */
export async function startRoleProcess(config: Config): Promise<RoleProcess> {
  const program = fileURLToPath(new URL(`../cli/main${path.extname(import.meta.filename)}`, import.meta.url));
  const child = fork(program, ['start'], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: environmentOf(config),
  });
  let log = '';
  let served = '';
  const ended = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const serving = new Promise<void>((resolve) => {
    for (const stream of [child.stdout, child.stderr])
      stream?.setEncoding('utf8').on('data', (text: string) => {
        log = (log + text).slice(-KEPT_LOG);
        served ||= SERVING.exec(log)?.[1] ?? '';
        if (served !== '') resolve();
      });
  });
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<void>((resolve) => (timer = setTimeout(resolve, START_LIMIT_MS)));
  await Promise.race([serving, ended, late]);
  clearTimeout(timer);
  if (served === '') {
    child.kill('SIGKILL');
    throw new Error(`a process (${config.role}) did not start: ${log.trim()}`);
  }
  return {
    url: served,
    signal: (name) => void child.kill(name),
    stop: async () => {
      if (isRunning(child)) child.kill('SIGTERM');
      await ended;
      if (child.exitCode !== 0) throw new Error(`a process (${config.role}) ended badly: ${log.trim()}`);
    },
  };
}

function isRunning(child: ChildProcess): boolean {
  return child.exitCode === null && child.signalCode === null;
}
