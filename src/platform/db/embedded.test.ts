import type * as ChildProcess from 'node:child_process';
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { EmbeddedPostgres } from './embedded.ts';

// A program that the operating system refuses to run: not there, or not executable.
vi.mock('node:child_process', async (original) => {
  const real = await original<typeof ChildProcess>();
  return {
    ...real,
    spawn: (_file: string, args: string[], options: object) => real.spawn('/nonexistent', args, options),
  };
});

let dataDir: string;
beforeEach(async () => {
  dataDir = path.join(await mkdtemp(path.join(os.tmpdir(), 'relayops-embedded-')), 'data');
});
afterEach(() => rm(path.dirname(dataDir), { recursive: true }));

it('a server that cannot be run fails the start, and not the process', async () => {
  await mkdir(path.join(dataDir, 'postgres'), { recursive: true });
  await writeFile(path.join(dataDir, 'postgres', 'PG_VERSION'), '18');
  await writeFile(path.join(dataDir, 'database-password'), 'known', { mode: 0o600 });
  await expect(EmbeddedPostgres.start({ dataDir })).rejects.toThrow(/ended while starting .*ENOENT/);
});

it('neither does an initdb that cannot be run', async () => {
  await expect(EmbeddedPostgres.start({ dataDir })).rejects.toThrow(/ENOENT/);
});
