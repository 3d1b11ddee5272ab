import { readFile, stat } from 'node:fs/promises';
import path from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { isRoot } from './embedded-binaries.ts';
import { SERVER_USER, readOwn, readPlain, writeOwn } from './embedded-folder.ts';

/** Which server runs on a data folder, and which process stops it. In a file of ours: the server's user cannot make us signal another process. */
export interface RunningServer {
  readonly pid: number;
  readonly port: number;
  /** Tells a process from a later one with the same ID. */
  readonly started: string;
  readonly ownerPid: number;
  readonly ownerStarted: string;
  /** The data folder: a copy of a folder must not use the server of the original. */
  readonly home: string;
}

const STOP_TIMEOUT_MS = 30_000;

function recordOf(home: string): string {
  return path.join(home, 'server.json');
}

/** Records that this process stops the server. */
export async function recordServer(home: string, pid: number, port: number): Promise<void> {
  const [started, ownerStarted] = await Promise.all([startedAt(pid), startedAt(process.pid)]);
  const record = { pid, port, started, ownerPid: process.pid, ownerStarted, home: path.resolve(home) };
  await writeOwn(recordOf(home), JSON.stringify(record) + '\n');
}

/** The server that runs on this data now. */
export async function runningServer(home: string): Promise<RunningServer | undefined> {
  const text = await readOwn(recordOf(home));
  if (text === null) return undefined;
  const record = JSON.parse(text) as RunningServer;
  if (record.home !== path.resolve(home)) return undefined;
  return (await isSame(record.pid, record.started)) ? record : undefined;
}

/** True while the process that stops the server lives. */
export async function hasOwner(server: RunningServer): Promise<boolean> {
  return isSame(server.ownerPid, server.ownerStarted);
}

export async function isSame(pid: number, started: string): Promise<boolean> {
  return isAlive(pid) && (await startedAt(pid)) === started;
}

/** Clock ticks from the start of the machine to the start of the process (proc(5), field 22); empty where there is no /proc. */
async function startedAt(pid: number): Promise<string> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '');
  // The second field is the name, in brackets, and may hold spaces.
  return text.slice(text.lastIndexOf(')') + 2).split(' ')[19] ?? '';
}

export async function stopByPid(pid: number, signal: NodeJS.Signals): Promise<void> {
  if (isAlive(pid)) process.kill(pid, signal);
  const deadline = performance.now() + STOP_TIMEOUT_MS;
  while (isAlive(pid) && performance.now() < deadline) await delay(20);
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

/**
 * Stops the server that a version before left running on a folder of the old layout.
 * @throws Error when the process that started it lives
 */
export async function stopFormerServer(folder: string): Promise<void> {
  const pid = Number((await readPlain(path.join(folder, 'postmaster.pid')))?.split('\n')[0]);
  if (!(pid > 0) || !isAlive(pid) || !(await isServerUsers(pid))) return;
  const owner = Number(await readPlain(path.join(folder, 'relayops-owner.pid')));
  if (owner > 0 && isAlive(owner))
    throw new Error(
      `the data folder ${folder} is in use by an older RelayOps (process ${owner}). Stop that process, then start again: the folder is changed to a safer form`,
    );
  await stopByPid(pid, 'SIGINT');
}

/** The ID comes from a file of the server's user, who must not make root signal a process of others. */
async function isServerUsers(pid: number): Promise<boolean> {
  if (!isRoot()) return true;
  const owner = await stat(`/proc/${pid}`).catch(() => undefined);
  return owner?.uid === SERVER_USER;
}
