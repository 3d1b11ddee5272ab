import { execFile } from 'node:child_process';
import { access, constants, mkdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { root } from './files.ts';

const run = promisify(execFile);
const LIMIT_MS = 120_000;

/**
 * Prometheus' own checker: from PATH, or out of Debian's package `prometheus`, which is unpacked and not installed. Null, and said
 * aloud, where there is neither. @throws with REQUIRE_SERVICES=1 instead
 */
export async function findPromtool(env: NodeJS.ProcessEnv = process.env): Promise<string | null> {
  for (const folder of (env.PATH ?? '').split(path.delimiter)) {
    const file = path.join(folder, 'promtool');
    if (folder !== '' && (await isExecutable(file))) return file;
  }
  try {
    return await unpackDebian();
  } catch (error) {
    const why = `promtool is not here and cannot be had (Debian, Ubuntu: apt-get install prometheus): ${(error as Error).message}`;
    if (env.REQUIRE_SERVICES === '1') throw new Error(why, { cause: error });
    process.stderr.write(`\n*** Tests that need promtool are SKIPPED: ${why}\n\n`);
    return null;
  }
}

/** Kept beside the packages, for the next run. */
async function unpackDebian(): Promise<string> {
  const kept = path.join(root, 'node_modules', '.cache', 'promtool');
  const file = path.join(kept, 'usr', 'bin', 'promtool');
  if (await isExecutable(file)) return file;
  const draft = `${kept}.${process.pid}`;
  await mkdir(draft, { recursive: true });
  try {
    await download(draft);
    await run('sh', ['-c', 'dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb'], { cwd: draft });
    await rm(kept, { recursive: true, force: true });
    await rename(draft, kept);
    return file;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
}

/** A fresh machine has no lists of packages yet, or old ones. */
async function download(folder: string): Promise<void> {
  const get = (): Promise<unknown> =>
    run('apt-get', ['-q', 'download', 'prometheus'], { cwd: folder, timeout: LIMIT_MS });
  try {
    await get();
  } catch (error) {
    if (process.getuid?.() !== 0) throw error;
    await run('apt-get', ['-q', 'update'], { timeout: LIMIT_MS });
    await get();
  }
}

function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}

/** @throws with what promtool says when it finds something wrong */
export async function promtool(program: string, args: readonly string[]): Promise<string> {
  try {
    return (await run(program, args, { timeout: LIMIT_MS })).stdout;
  } catch (error) {
    const { stdout = '', stderr = '' } = error as { stdout?: string; stderr?: string };
    throw new Error(`promtool ${args.join(' ')}:\n${stdout}${stderr}`, { cause: error });
  }
}
