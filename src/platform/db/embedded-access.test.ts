import { spawn } from 'node:child_process';
import { once } from 'node:events';
import {
  chmod,
  chown,
  lstat,
  mkdir,
  mkdtemp,
  readFile,
  readdir,
  rename,
  rm,
  symlink,
  writeFile,
} from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { isRoot, prepareBinaries } from './embedded-binaries.ts';
import { unprivileged } from './embedded-password.ts';
import { EmbeddedPostgres, freePort } from './embedded.ts';

let root: string;
let dataDir: string;
const servers: EmbeddedPostgres[] = [];
const SMALL = { shared_buffers: '16MB', fsync: 'off' };

beforeEach(async () => {
  root = await mkdtemp(path.join(os.tmpdir(), 'relayops-access-'));
  await chmod(root, 0o755);
  dataDir = path.join(root, 'data');
});
afterEach(async () => {
  for (const server of servers.splice(0)) await server.stopServer('immediate');
  await rm(root, { recursive: true });
});

async function start(): Promise<EmbeddedPostgres> {
  const server = await EmbeddedPostgres.start({ dataDir, settings: SMALL });
  servers.push(server);
  return server;
}

async function connect(connectionString: string): Promise<string> {
  const client = new pg.Client({ connectionString });
  await client.connect();
  try {
    const { rows } = await client.query<{ name: string }>('SELECT current_user::text AS name');
    return rows[0]!.name;
  } finally {
    await client.end();
  }
}

/** As another local user would try it. */
async function refusesStrangers(port: number): Promise<void> {
  for (const user of ['postgres', 'postgres:wrong', 'postgres:postgres', 'nobody'])
    await expect(connect(`postgres://${user}@127.0.0.1:${port}/postgres`), user).rejects.toThrow(
      /password|SASL/,
    );
}

/** A data folder as versions before made it: everybody is let in, and the server's files lie directly in it. */
async function makeFormerFolder(): Promise<{ binaries: string }> {
  const binaries = await prepareBinaries();
  await mkdir(dataDir, { mode: 0o700 });
  if (isRoot()) await chown(dataDir, 65_534, 65_534);
  const args = ['-D', dataDir, '-U', 'postgres', '--auth=trust', '--encoding=UTF8', '--locale=C'];
  const settings = ['-c', 'shared_buffers=16MB', '-c', 'unix_socket_directories='];
  const init = spawn(path.join(binaries, 'bin', 'initdb'), [...args, ...settings], {
    stdio: 'ignore',
    ...unprivileged(),
  });
  expect(await once(init, 'exit')).toEqual([0, null]);
  return { binaries };
}

/** A server that a version before left running. */
async function runFormerServer(binaries: string): Promise<string> {
  const port = await freePort();
  const server = spawn(path.join(binaries, 'bin', 'postgres'), ['-D', dataDir, '-p', String(port)], {
    stdio: ['ignore', 'ignore', 'pipe'],
    ...unprivileged(),
  });
  for await (const chunk of server.stderr.setEncoding('utf8'))
    if (String(chunk).includes('ready to accept')) break;
  return `postgres://postgres@127.0.0.1:${port}/postgres`;
}

describe('the embedded server', () => {
  it('lets nobody in without the password, which is readable by its owner only', async () => {
    const server = await start();
    await refusesStrangers(server.port);
    expect(await connect(server.url)).toBe('postgres');
    const hba = await readFile(path.join(dataDir, 'postgres', 'pg_hba.conf'), 'utf8');
    expect(
      hba.split('\n').filter((line) => /^(local|host)/.test(line) && !/scram-sha-256$/.test(line)),
    ).toEqual([]);
    expect((await lstat(path.join(dataDir, 'database-password'))).mode & 0o777).toBe(0o600);
    expect((await readdir(dataDir)).sort()).toEqual(['database-password', 'postgres', 'server.json']);
  });

  it('keeps its password over restarts, and gives it to a process that joins', async () => {
    const first = await start();
    const joined = await start();
    expect(joined.url).toBe(first.url);
    expect(await connect(joined.url)).toBe('postgres');
    await joined.stopServer();
    expect(await connect(first.url)).toBe('postgres');
    await first.stopServer();
    const again = await start();
    expect(new URL(again.url).password).toBe(new URL(first.url).password);
  });

  it.runIf(isRoot())('owns nothing but its own files', async () => {
    await start();
    const owned = async (name: string) => {
      const { uid, mode } = await lstat(path.join(dataDir, name));
      return [uid, (mode & 0o777).toString(8)];
    };
    expect(await owned('.')).toEqual([0, '711']);
    expect(await owned('postgres')).toEqual([65_534, '700']);
    expect(await owned('server.json')).toEqual([0, '600']);
    expect(await owned('database-password')).toEqual([0, '600']);
    expect(await owned('postgres/postgresql.auto.conf')).toEqual([65_534, '600']);
  });
});

describe('a data folder', () => {
  it('is refused when others may write into it, when it is a link, and when it is not ours', async () => {
    await mkdir(dataDir);
    await writeFile(path.join(dataDir, 'something'), '');
    await chmod(dataDir, 0o777);
    await expect(start()).rejects.toThrow(/cannot be trusted: others may write.*chmod go-w/);
    if (isRoot()) {
      await chmod(dataDir, 0o700);
      await chown(dataDir, 65_534, 65_534);
      await expect(start()).rejects.toThrow(/cannot be trusted: it belongs to user 65534/);
    }
    const target = dataDir;
    dataDir = path.join(root, 'link');
    await symlink(target, dataDir);
    await expect(start()).rejects.toThrow(/cannot be trusted: it is not a folder/);
  });

  it('is refused when its password file is a link or may be written by others', async () => {
    await mkdir(dataDir);
    const file = path.join(dataDir, 'database-password');
    await symlink('/etc/passwd', file);
    await expect(start()).rejects.toThrow(/database-password .*no link/);
    await rm(file);
    await writeFile(file, 'known');
    await chmod(file, 0o666);
    await expect(start()).rejects.toThrow(/database-password cannot be trusted/);
  });

  it('of a version before is brought into the new form, with its data', async () => {
    const { binaries } = await makeFormerFolder();
    const former = await runFormerServer(binaries);
    const client = new pg.Client({ connectionString: former });
    client.on('error', () => undefined);
    await client.connect();
    await client.query('CREATE TABLE kept AS SELECT 42 AS n');
    await client.end();
    const server = await start();
    await refusesStrangers(server.port);
    const after = new pg.Client({ connectionString: server.url });
    await after.connect();
    expect((await after.query('SELECT n FROM kept')).rows).toEqual([{ n: 42 }]);
    await after.end();
    expect((await readdir(dataDir)).sort()).toEqual(['database-password', 'postgres', 'server.json']);
    if (isRoot()) expect((await lstat(dataDir)).uid).toBe(0);
    await server.stopServer();
    expect(await connect((await start()).url)).toBe('postgres');
  });

  it('of a version before is left alone while the process that started its server lives', async () => {
    const { binaries } = await makeFormerFolder();
    const former = await runFormerServer(binaries);
    await writeFile(path.join(dataDir, 'relayops-owner.pid'), String(process.pid));
    await expect(start()).rejects.toThrow(/in use by an older RelayOps \(process \d+\). Stop that process/);
    expect(await connect(former)).toBe('postgres');
    await rm(path.join(dataDir, 'relayops-owner.pid'));
    await refusesStrangers((await start()).port);
  });

  it('whose move was interrupted is moved by the next start', async () => {
    await makeFormerFolder();
    await mkdir(path.join(dataDir, 'postgres'), { mode: 0o700 });
    await rename(path.join(dataDir, 'base'), path.join(dataDir, 'postgres', 'base'));
    await refusesStrangers((await start()).port);
  });
});
