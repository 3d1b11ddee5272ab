import { mkdir, readdir, rename, rm } from 'node:fs/promises';
import path from 'node:path';
import { exists, isRoot } from './embedded-binaries.ts';
import { SERVER_USER, openFolder, serverFiles, unlessThere } from './embedded-folder.ts';
import { stopFormerServer } from './embedded-running.ts';

const SERVER_FOLDER = 'postgres';

/**
 * Versions before kept the server's files directly in the data folder, which as root belonged to the server's user. Moves them into
 * `postgres/`. PG_VERSION is moved last, so that an interrupted move is continued by the next start.
 */
export async function upgradeLayout(home: string): Promise<void> {
  if (!(await exists(path.join(home, 'PG_VERSION')))) return;
  await stopFormerServer(home);
  await takeOver(home);
  const target = serverFiles(home);
  await mkdir(target, { mode: 0o700 }).catch(unlessThere);
  await (await openFolder(target)).close();
  const names = (await readdir(home)).filter((name) => name !== SERVER_FOLDER && name !== 'PG_VERSION');
  for (const name of [...names, 'PG_VERSION']) await rename(path.join(home, name), path.join(target, name));
  await rm(path.join(target, 'relayops-owner.pid'), { force: true });
}

/** From here on the server's user can no longer change what the folder holds. */
async function takeOver(home: string): Promise<void> {
  const handle = await openFolder(home);
  try {
    const { uid } = await handle.stat();
    const us = process.getuid?.();
    if (us !== undefined && uid !== us && !(isRoot() && uid === SERVER_USER))
      throw new Error(
        `the data folder ${home} belongs to user ${uid}, not to ${us}: run as that user, or set RELAYOPS_DATABASE_DATA_DIR to another folder`,
      );
    if (isRoot()) await handle.chown(0, 0);
    await handle.chmod(0o700);
  } finally {
    await handle.close();
  }
}
