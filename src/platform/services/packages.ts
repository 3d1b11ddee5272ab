import { spawn } from 'node:child_process';
import { access, constants, rm, writeFile } from 'node:fs/promises';
import { once } from 'node:events';
import path from 'node:path';
import { isRoot, SYSTEM_PATH } from './local-process.ts';

export type ServiceName = 'rabbitmq' | 'redis';

/** A service that is not installed and could not be: the message says what to do. */
export class ServiceUnavailable extends Error {
  readonly services: readonly ServiceName[];

  constructor(services: readonly ServiceName[], message: string, options?: ErrorOptions) {
    super(message, options);
    this.name = 'ServiceUnavailable';
    this.services = services;
  }
}

interface Requirement {
  readonly title: string;
  readonly programs: readonly string[];
  /** Name in Debian and Ubuntu, and in Homebrew. */
  readonly debian: string;
  readonly homebrew: string;
}

const REQUIREMENTS: Readonly<Record<ServiceName, Requirement>> = {
  rabbitmq: {
    title: 'RabbitMQ',
    programs: ['rabbitmq-server', 'epmd'],
    debian: 'rabbitmq-server',
    homebrew: 'rabbitmq',
  },
  redis: {
    title: 'Redis',
    programs: ['redis-server', 'redis-cli'],
    debian: 'redis-server',
    homebrew: 'redis',
  },
};

/** Before the search path: the programs themselves, where Debian's and Red Hat's packages have wrappers that change the user. */
const FOLDERS = ['/usr/lib/rabbitmq/bin', ...SYSTEM_PATH.split(':')];

/** The file of an installed program, or undefined. Looks in the system's folders, not in PATH. */
export async function findProgram(name: string): Promise<string | undefined> {
  for (const folder of FOLDERS) {
    const file = path.join(folder, name);
    if (await isExecutable(file)) return file;
  }
  return undefined;
}

/** @throws ServiceUnavailable */
export async function requireProgram(service: ServiceName, name: string): Promise<string> {
  const file = await findProgram(name);
  if (file === undefined) throw new ServiceUnavailable([service], advice([service]));
  return file;
}

/**
 * Makes sure that the programs of these services are installed. As root on Debian or Ubuntu it installs the packages that are missing,
 * which takes up to a minute and is told on standard error; the system's own services are not started by that.
 * @throws ServiceUnavailable when something is missing and cannot be installed
 */
export async function ensureServices(names: readonly ServiceName[]): Promise<void> {
  const missing = await missingServices(names);
  if (missing.length === 0) return;
  if (!isRoot() || !(await isExecutable('/usr/bin/apt-get')))
    throw new ServiceUnavailable(missing, advice(missing));
  try {
    await installDebian(missing.map((name) => REQUIREMENTS[name].debian));
  } catch (error) {
    throw new ServiceUnavailable(missing, advice(missing), { cause: error });
  }
  const still = await missingServices(missing);
  if (still.length > 0) throw new ServiceUnavailable(still, advice(still));
}

async function missingServices(names: readonly ServiceName[]): Promise<ServiceName[]> {
  const missing: ServiceName[] = [];
  for (const name of new Set(names)) {
    const found = await Promise.all(REQUIREMENTS[name].programs.map(findProgram));
    if (found.includes(undefined)) missing.push(name);
  }
  return missing;
}

function advice(names: readonly ServiceName[]): string {
  const needed = names.map((name) => REQUIREMENTS[name]);
  const packages = (manager: 'debian' | 'homebrew'): string => needed.map((one) => one[manager]).join(' ');
  return (
    `${needed.map((one) => one.title).join(' and ')} cannot be started here: not installed. ` +
    `Debian, Ubuntu: apt-get install ${packages('debian')}; macOS: brew install ${packages('homebrew')}; or name a server that runs.`
  );
}

const POLICY_FILE = '/usr/sbin/policy-rc.d';
/** invoke-rc.d asks this file before a package starts its service; 101 forbids it. */
const POLICY = '#!/bin/sh\nexit 101\n';
const INSTALL_LIMIT_MS = 300_000;

async function installDebian(packages: readonly string[]): Promise<void> {
  process.stderr.write(`installing ${packages.join(', ')} …\n`);
  const isOurPolicy = await writePolicy();
  try {
    await aptGet(['update']);
    await aptGet(['install', '-y', '--no-install-recommends', ...packages]);
  } finally {
    if (isOurPolicy) await rm(POLICY_FILE, { force: true });
  }
}

/** @returns whether there was none and we made one */
async function writePolicy(): Promise<boolean> {
  try {
    await writeFile(POLICY_FILE, POLICY, { flag: 'wx', mode: 0o755 });
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return false;
    throw error;
  }
}

async function aptGet(args: readonly string[]): Promise<void> {
  // Another apt may be at work: wait for its lock.
  const command = [
    'DEBIAN_FRONTEND=noninteractive',
    'apt-get',
    '-q',
    '-o',
    'DPkg::Lock::Timeout=120',
    ...args,
  ];
  const child = spawn('env', command, {
    stdio: ['ignore', 'pipe', 'pipe'],
    timeout: INSTALL_LIMIT_MS,
  });
  let log = '';
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-4_000);
      process.stderr.write(text);
    });
  const [code] = (await once(child, 'exit')) as [number | null];
  if (code !== 0)
    throw new Error(`apt-get ${args[0]} failed (${code ?? 'ended by a signal'}): ${log.trim()}`);
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  );
}
