import { access, chmod, chown, constants, lstat, mkdtemp, readdir, rm, symlink } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { distrust, isRoot, prepareBinaries } from './embedded-binaries.ts';

let temporary: string;
beforeEach(async () => void (temporary = await mkdtemp(path.join(os.tmpdir(), 'relayops-binaries-'))));
afterEach(async () => {
  vi.restoreAllMocks();
  await rm(temporary, { recursive: true });
});

describe('a folder at a path that others know', () => {
  it('is used when it is ours and nobody else may write into it', async () => {
    await chmod(temporary, 0o755);
    expect(await distrust(temporary)).toBeNull();
  });

  it('is not used when others may write into it, when it is a link, and when it is not ours', async () => {
    const link = path.join(temporary, 'link');
    await symlink(os.tmpdir(), link);
    expect(await distrust(link)).toBe('it is not a folder');
    for (const mode of [0o775, 0o757]) {
      await chmod(temporary, mode);
      expect(await distrust(temporary)).toBe('others may write into it');
    }
    await chmod(temporary, 0o755);
    if (isRoot()) await chown(temporary, 65_534, 65_534);
    else vi.spyOn(process, 'getuid').mockReturnValue(process.getuid!() + 1);
    expect(await distrust(temporary)).toMatch(/^it belongs to user \d+, not to \d+$/);
  });
});

/** As root there is always a copy; else only where the package's links are missing. */
describe.runIf(isRoot())('the copy of the binaries', () => {
  it('is made once, readable by everybody and writable by us', async () => {
    const first = await prepareBinaries(temporary);
    expect(await prepareBinaries(temporary)).toBe(first);
    expect(await readdir(temporary)).toEqual([path.basename(first)]);
    expect((await lstat(first)).mode & 0o777).toBe(0o755);
    await access(path.join(first, 'bin', 'postgres'), constants.X_OK);
  });

  it('goes into a new folder when somebody else was there before, and the start says why', async () => {
    const warned = vi.spyOn(process, 'emitWarning').mockImplementation(() => undefined);
    const planted = await prepareBinaries(temporary);
    await chown(planted, 65_534, 65_534);
    const used = await prepareBinaries(temporary);
    expect(used).not.toBe(planted);
    expect(await distrust(used)).toBeNull();
    expect((await lstat(used)).mode & 0o777).toBe(0o755);
    expect(warned).toHaveBeenCalledWith(expect.stringContaining('it belongs to user 65534, not to 0'));
  });

  it('is made by several at once, of which one stays', async () => {
    const all = await Promise.all(Array.from({ length: 3 }, () => prepareBinaries(temporary)));
    expect(new Set(all).size).toBe(1);
    expect(await readdir(temporary)).toHaveLength(1);
  });
});
