import { spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { rm } from 'node:fs/promises';
import path from 'node:path';
import { isRoot } from './embedded-binaries.ts';
import { SERVER_USER, createOwn, readOwn, serverFiles, writeDraft } from './embedded-folder.ts';

export const SUPERUSER = 'postgres';

/** For programs that PostgreSQL refuses to run as root. */
export function unprivileged(): { uid?: number; gid?: number } {
  return isRoot() ? { uid: SERVER_USER, gid: SERVER_USER } : {};
}

function passwordFile(home: string): string {
  return path.join(home, 'database-password');
}

/** The superuser's password; null until one has been set. */
export async function knownPassword(home: string): Promise<string | null> {
  return (await readOwn(passwordFile(home)))?.trim() ?? null;
}

/** @returns the password that is kept: of several processes that start together one wins */
async function keepPassword(home: string, password: string): Promise<string> {
  await createOwn(passwordFile(home), password + '\n');
  return (await knownPassword(home))!;
}

export function newPassword(): string {
  return randomBytes(32).toString('base64url');
}

/** Makes an empty server whose superuser has a password (initdb, under a second). @returns the password */
export async function initialise(
  home: string,
  binaries: string,
  settings: Readonly<Record<string, string>>,
): Promise<string> {
  const password = newPassword();
  const handedOver = await writeDraft(passwordFile(home), password + '\n', SERVER_USER);
  const args = [
    ...['-D', serverFiles(home), '-U', SUPERUSER, '--auth=scram-sha-256', `--pwfile=${handedOver}`],
    ...['--encoding=UTF8', '--locale=C', '--no-instructions'],
    ...Object.entries(settings).flatMap(([key, value]) => ['-c', `${key}=${value}`]),
  ];
  try {
    const { code, log } = await run(path.join(binaries, 'bin', 'initdb'), args, '');
    if (code !== 0) throw new Error(`initdb failed in ${home}: ${log}`);
  } finally {
    await rm(handedOver, { force: true });
  }
  return keepPassword(home, password);
}

const ACCESS_RULES = [
  'local all all scram-sha-256',
  'host all all 127.0.0.1/32 scram-sha-256',
  'host all all ::1/128 scram-sha-256',
];

/**
 * Sets a new password on a server that has none that we know, and makes it needed by everybody. In single-user mode: while it runs
 * nobody can connect. Versions before let every local user in.
 */
export async function secureServer(home: string, binaries: string): Promise<string> {
  const password = newPassword();
  const rules = ACCESS_RULES.map((rule) => `('${rule}')`).join(', ');
  const file = path.resolve(serverFiles(home), 'pg_hba.conf').replaceAll("'", "''");
  const statements = [
    "SET password_encryption = 'scram-sha-256'",
    `ALTER ROLE ${SUPERUSER} PASSWORD '${password}'`,
    `COPY (VALUES ${rules}) TO '${file}'`,
  ];
  // The last -c wins: a statement that fails must not be logged with its text.
  const args = ['--single', '-D', serverFiles(home), '-c', 'log_min_error_statement=panic', 'postgres'];
  const { code, log } = await run(path.join(binaries, 'bin', 'postgres'), args, statements.join('\n') + '\n');
  if (code !== 0 || /\b(ERROR|FATAL|PANIC):/.test(log))
    throw new Error(`the password of the embedded PostgreSQL in ${home} cannot be set: ${log}`);
  return keepPassword(home, password);
}

async function run(
  program: string,
  args: readonly string[],
  input: string,
): Promise<{ code: number | null; log: string }> {
  const child = spawn(program, args, { stdio: ['pipe', 'ignore', 'pipe'], ...unprivileged() });
  let log = '';
  child.stderr.setEncoding('utf8').on('data', (chunk: string) => (log += chunk));
  // A program that ended early says why on its standard error.
  child.stdin.on('error', () => undefined).end(input);
  const [code] = (await once(child, 'close')) as [number | null];
  return { code, log: log.trim() };
}
