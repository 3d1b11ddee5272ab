import { randomBytes } from 'node:crypto';
import { constants } from 'node:fs';
import { chmod, type FileHandle, link, lstat, mkdir, open, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { distrust, exists, isRoot } from './embedded-binaries.ts';

/**
 * The data folder of an embedded server belongs to us, and nobody else may write into it:
 *
 *     <data folder>/          ours; as root passable for the server's user
 *       postgres/             the server's own files; as root they belong to the server's user
 *       database-password     superuser's password, readable by us
 *       secrets.json          secrets of the installation (src/app/embedded-home.ts)
 *       server.json           the server that runs now
 *
 * The server's user could plant links in a folder of its own, so root writes nothing there and trusts nothing in it.
 */
export const SERVER_USER = 65_534;

const FOLDER_MODE = isRoot() ? 0o711 : 0o700;
// Windows has neither.
const NO_LINK = (constants.O_NOFOLLOW ?? 0) | (constants.O_NONBLOCK ?? 0);

/** The server's own files. */
export function serverFiles(home: string): string {
  return path.join(home, 'postgres');
}

export async function isInitialised(home: string): Promise<boolean> {
  return exists(path.join(serverFiles(home), 'PG_VERSION'));
}

/** Makes the data folder, or checks that it is ours. @throws Error that says what is wrong with it and what to do */
export async function prepareHome(home: string): Promise<void> {
  await mkdir(path.dirname(home), { recursive: true });
  await mkdir(home).catch(unlessThere);
  await checkHome(home);
  await chmod(home, FOLDER_MODE);
}

async function checkHome(home: string): Promise<void> {
  const doubt = await distrust(home);
  if (doubt === null) return;
  // The mode of an empty folder of ours is nobody's choice but the umask's.
  if (doubt === 'others may write into it' && (await readdir(home)).length === 0) return;
  throw new Error(
    `the data folder ${home} cannot be trusted: ${doubt}. Its secrets could be read or replaced. Name a folder that is no link, run \`chown ${process.getuid?.() ?? ''} ${home}\` and \`chmod go-w ${home}\`, or set RELAYOPS_DATABASE_DATA_DIR to another one`,
  );
}

/** The folder for the server's own files, given to its user. @throws Error when something else has its name */
export async function prepareServerFiles(home: string): Promise<void> {
  const folder = serverFiles(home);
  await mkdir(folder, { mode: 0o700 }).catch(unlessThere);
  const { uid } = await lstat(folder);
  const handle = await openFolder(folder);
  try {
    if (isRoot() && uid !== SERVER_USER) await handle.chown(SERVER_USER, SERVER_USER);
    await handle.chmod(0o700);
  } finally {
    await handle.close();
  }
}

/** @throws Error when it is a link or no folder */
export async function openFolder(folder: string): Promise<FileHandle> {
  try {
    return await open(folder, constants.O_RDONLY | (constants.O_DIRECTORY ?? 0) | NO_LINK);
  } catch (error) {
    throw new Error(`${folder} is not a folder, or is a link`, { cause: error });
  }
}

/** A file's text, without following a link or waiting for a pipe; null when there is none. Not to be trusted when others may have written it. */
export async function readPlain(file: string): Promise<string | null> {
  return readChecked(file, false);
}

/** The text of a file that only we can have written; null when there is none. @throws Error when others could have */
export async function readOwn(file: string): Promise<string | null> {
  return readChecked(file, true);
}

async function readChecked(file: string, mustBeOurs: boolean): Promise<string | null> {
  let handle: FileHandle;
  try {
    handle = await open(file, constants.O_RDONLY | NO_LINK);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return null;
    throw new Error(`${file} cannot be read; it must be a file and no link`, { cause: error });
  }
  try {
    const { uid, mode } = await handle.stat();
    const us = process.getuid?.();
    const isOurs = us === undefined || (uid === us && (mode & 0o022) === 0);
    if (mustBeOurs && !isOurs)
      throw new Error(
        `${file} cannot be trusted: it belongs to user ${uid}, or others may write to it. Check its contents, then run \`chown ${us} ${file}\` and \`chmod 600 ${file}\``,
      );
    return await handle.readFile('utf8');
  } finally {
    await handle.close();
  }
}

/** Replaces a file at once; readable by us only. */
export async function writeOwn(file: string, text: string): Promise<void> {
  await rename(await writeDraft(file, text), file);
}

/** As `writeOwn`, but leaves a file that is there already: of several processes that start together one wins. */
export async function createOwn(file: string, text: string): Promise<void> {
  const draft = await writeDraft(file, text);
  try {
    await link(draft, file).catch(unlessThere);
  } finally {
    await rm(draft);
  }
}

/** A new file beside `file` that nobody else can have made. @param owner to whom it is given when we are root */
export async function writeDraft(file: string, text: string, owner?: number): Promise<string> {
  const draft = `${file}.${randomBytes(6).toString('hex')}`;
  const handle = await open(draft, 'wx', 0o600);
  try {
    await handle.writeFile(text);
    if (owner !== undefined && isRoot()) await handle.chown(owner, owner);
    await handle.sync();
  } finally {
    await handle.close();
  }
  return draft;
}

export function unlessThere(error: NodeJS.ErrnoException): void {
  if (error.code !== 'EEXIST') throw error;
}
