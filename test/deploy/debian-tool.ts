import { execFile } from 'node:child_process';
import { access, constants, mkdir, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { promisify } from 'node:util';
import { root } from './files.ts';

const run = promisify(execFile);
const LIMIT_MS = 120_000;
/** Libraries of libraries of libraries are enough. */
const MAX_ROUNDS = 4;

export interface DebianTool {
  readonly program: string;
  readonly debian: string;
  /** Where the program lies in the package. */
  readonly folder: 'usr/bin' | 'usr/sbin';
}

/** A program and the folders of libraries that it needs besides the system's. */
export interface FoundTool {
  readonly file: string;
  readonly libraries: readonly string[];
}

/**
 * A program from PATH, or out of its Debian package, which is unpacked with the libraries that are not installed, and not installed
 * itself. Null, and said aloud, where there is neither. @throws with REQUIRE_SERVICES=1 instead
 */
export async function findTool(
  tool: DebianTool,
  env: NodeJS.ProcessEnv = process.env,
): Promise<FoundTool | null> {
  for (const folder of (env.PATH ?? '').split(path.delimiter)) {
    const file = path.join(folder, tool.program);
    if (folder !== '' && (await isExecutable(file))) return { file, libraries: [] };
  }
  try {
    return await unpacked(tool);
  } catch (error) {
    const { program, debian } = tool;
    const why = `${program} is not here and cannot be had (Debian, Ubuntu: apt-get install ${debian}): ${(error as Error).message}`;
    if (env.REQUIRE_SERVICES === '1') throw new Error(why, { cause: error });
    process.stderr.write(`\n*** Tests that need ${program} are SKIPPED: ${why}\n\n`);
    return null;
  }
}

/** Kept beside the packages, for the next run. */
async function unpacked({ program, debian, folder }: DebianTool): Promise<FoundTool> {
  const kept = path.join(root, 'node_modules', '.cache', program);
  const file = path.join(kept, folder, program);
  if (!(await isExecutable(file))) {
    const draft = `${kept}.${process.pid}`;
    await mkdir(draft, { recursive: true });
    try {
      await unpackWithLibraries(debian, draft);
      await rm(kept, { recursive: true, force: true });
      await rename(draft, kept);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
  }
  const lib = path.join(kept, 'usr', 'lib');
  const triplets = await readdir(lib).catch(() => []);
  return { file, libraries: triplets.map((triplet) => path.join(lib, triplet)) };
}

async function unpackWithLibraries(debian: string, folder: string): Promise<void> {
  let wanted = [debian];
  for (let round = 0; round < MAX_ROUNDS && wanted.length > 0; round++) {
    await download(wanted, folder);
    const next = new Set<string>();
    for (const file of (await readdir(folder)).filter((name) => name.endsWith('.deb'))) {
      const { stdout } = await run('dpkg-deb', ['-f', file, 'Depends'], { cwd: folder });
      for (const library of libraries(stdout)) if (!(await isInstalled(library))) next.add(library);
      await run('sh', ['-c', 'dpkg-deb -x "$1" . && rm "$1"', 'sh', file], { cwd: folder });
    }
    wanted = [...next].filter((name) => !wanted.includes(name));
  }
}

/** The first choice of each dependency that is a library. */
function libraries(depends: string): string[] {
  return depends
    .split(',')
    .map((dependency) => /^lib[\w.+-]+/.exec(dependency.trim())?.[0])
    .filter((name) => name !== undefined);
}

function isInstalled(name: string): Promise<boolean> {
  return run('dpkg-query', ['-W', '-f', '${Status}', name]).then(
    ({ stdout }) => stdout.includes('ok installed'),
    () => false,
  );
}

/** A fresh machine has no lists of packages yet, or old ones. */
async function download(packages: readonly string[], folder: string): Promise<void> {
  const get = (): Promise<unknown> =>
    run('apt-get', ['-q', 'download', ...packages], { cwd: folder, timeout: LIMIT_MS });
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
