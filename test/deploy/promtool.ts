import { execFile } from 'node:child_process';
import { access, constants, mkdir, rename, rm } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';

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

async function unpackDebian(): Promise<string> {
  const kept = path.join(os.tmpdir(), `relayops-promtool-${process.getuid?.() ?? 'user'}`);
  const file = path.join(kept, 'usr', 'bin', 'promtool');
  if (await isExecutable(file)) return file;
  const draft = `${kept}.${process.pid}`;
  await mkdir(draft, { mode: 0o700 });
  try {
    if (process.getuid?.() === 0) await run('apt-get', ['-q', 'update'], { timeout: LIMIT_MS });
    await run('apt-get', ['-q', 'download', 'prometheus'], { cwd: draft, timeout: LIMIT_MS });
    await run('sh', ['-c', 'dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb'], { cwd: draft });
    await rm(kept, { recursive: true, force: true });
    await rename(draft, kept);
    return file;
  } finally {
    await rm(draft, { recursive: true, force: true });
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
