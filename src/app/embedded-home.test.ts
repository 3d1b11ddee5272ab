import { chmod, lstat, mkdir, mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { EmbeddedHome } from './embedded-home.ts';

let root: string;
beforeEach(async () => void (root = await mkdtemp(path.join(os.tmpdir(), 'relayops-home-'))));
afterEach(() => rm(root, { recursive: true }));

const homeAt = (name: string) => new EmbeddedHome(path.join(root, name));
const SHARED = { jwtSecret: 'shared-jwt', secretsKey: 'shared-key' };

/** Data that was made while the secrets lay beside its folder. */
async function olderData(name: string): Promise<EmbeddedHome> {
  await mkdir(path.join(root, name, 'postgres'), { recursive: true });
  await writeFile(path.join(root, name, 'postgres', 'PG_VERSION'), '18');
  return homeAt(name);
}

it('two installations beside each other have secrets of their own, each inside its folder', async () => {
  const [one, two] = [await homeAt('data').secrets(), await homeAt('data2').secrets()];
  expect(one.secretsKey).not.toBe(two.secretsKey);
  expect(one.jwtSecret).not.toBe(two.jwtSecret);
  for (const [name, secrets] of [
    ['data', one],
    ['data2', two],
  ] as const) {
    const file = path.join(root, name, 'secrets.json');
    expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(secrets);
    expect((await lstat(file)).mode & 0o777).toBe(0o600);
  }
  await expect(lstat(path.join(root, 'secrets.json'))).rejects.toThrow('ENOENT');
});

it('secrets that older installations shared are copied into each of them, and stay for the others', async () => {
  const file = path.join(root, 'secrets.json');
  await writeFile(file, JSON.stringify(SHARED), { mode: 0o600 });
  expect(await (await olderData('data')).secrets()).toEqual(SHARED);
  expect(await (await olderData('data2')).secrets()).toEqual(SHARED);
  expect(JSON.parse(await readFile(file, 'utf8'))).toEqual(SHARED);
  expect(await homeAt('fresh').secrets()).not.toEqual(SHARED);
  await homeAt('data').keep({ ...SHARED, secretsKey: 'changed' });
  expect((await homeAt('data').secrets()).secretsKey).toBe('changed');
  expect(await homeAt('data2').secrets()).toEqual(SHARED);
});

it('secrets beside the folder that others may have written are refused', async () => {
  await writeFile(path.join(root, 'secrets.json'), JSON.stringify(SHARED), { mode: 0o666 });
  const home = await olderData('data');
  await chmod(path.join(root, 'secrets.json'), 0o666);
  await expect(home.secrets()).rejects.toThrow(/secrets.json cannot be trusted/);
});

it('processes that start together agree on the secrets', async () => {
  const all = await Promise.all(Array.from({ length: 8 }, () => homeAt('data').secrets()));
  expect(new Set(all.map(({ secretsKey }) => secretsKey)).size).toBe(1);
});

it('looking for known secrets makes nothing', async () => {
  expect(await homeAt('data').known()).toBeNull();
  await expect(lstat(path.join(root, 'data'))).rejects.toThrow('ENOENT');
});
