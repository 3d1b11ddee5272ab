import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterAll, beforeAll, describe, expect, inject, it } from 'vitest';
import { projectRoot } from '../../src/app/paths.ts';
import { Relay, TEST_SECRETS } from '../support/relay.ts';
import { RelayClient } from '../support/relay-client.ts';
import { until } from '../support/until.ts';

interface Ended {
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

let relay: Relay;
let environment: Readonly<Record<string, string>>;
let folder: string;
const children = new Set<ChildProcess>();

beforeAll(async () => {
  relay = await Relay.start();
  folder = await mkdtemp(path.join(os.tmpdir(), 'relayops-cli-'));
  environment = {
    RELAYOPS_DATABASE_URL: relay.test.url,
    RELAYOPS_AUTH_JWT_SECRET: TEST_SECRETS['auth.jwtSecret'],
    RELAYOPS_SECRETS_KEY: TEST_SECRETS['secrets.key'],
    RELAYOPS_CLIENT_URL: relay.process.url,
    RELAYOPS_CLIENT_API_KEY: relay.api.key,
  };
});
afterAll(async () => {
  for (const child of children) child.kill('SIGKILL');
  await rm(folder, { recursive: true });
  await relay.close();
});

function spawned(args: readonly string[], more: Readonly<Record<string, string>> = {}) {
  const child = spawn(process.execPath, ['src/cli/main.ts', ...args], {
    cwd: projectRoot,
    env: { PATH: process.env['PATH'], ...environment, ...more },
  });
  children.add(child);
  const output = { stdout: '', stderr: '' };
  child.stdout.setEncoding('utf8').on('data', (text: string) => (output.stdout += text));
  child.stderr.setEncoding('utf8').on('data', (text: string) => (output.stderr += text));
  const ended = once(child, 'close').then(([code]): Ended => ({ code: code as number | null, ...output }));
  return { child, output, ended };
}

/** Runs a command to its end. */
async function run(
  args: readonly string[],
  more: Readonly<Record<string, string>> = {},
  input = '',
): Promise<Ended> {
  const { child, ended } = spawned(args, more);
  child.stdin.end(input);
  return ended;
}

/** The JSON object that a command printed as its last line. */
async function json<T>(args: readonly string[], more: Readonly<Record<string, string>> = {}): Promise<T> {
  const { code, stdout, stderr } = await run([...args, '--json'], more);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout.trim().split('\n').at(-1)!) as T;
}

describe('secrets reseal', () => {
  const key = TEST_SECRETS['secrets.key'];
  const other = Buffer.alloc(32, 8).toString('base64');
  const change = (to: string, from: string) =>
    json<{ resealed: number; current: number; unopenable: number }>(['secrets', 'reseal'], {
      RELAYOPS_SECRETS_KEY: to,
      RELAYOPS_SECRETS_PREVIOUS_KEYS: from,
    });

  it('seals with another key and back, and says how much', async () => {
    await relay.api.call('POST', '/v1/endpoints', { url: 'https://hooks.example.com/in' });
    const there = await change(other, key);
    expect(there).toMatchObject({ current: 0, unopenable: 0 });
    expect(there.resealed).toBeGreaterThan(0);
    expect(await change(key, other)).toEqual(there);
    expect(await change(key, other)).toMatchObject({ resealed: 0, current: there.resealed });
    const { stdout, stderr, code } = await run(['secrets', 'reseal']);
    expect(code, stderr).toBe(0);
    expect(stdout).toContain('Resealed: 0.');
  });

  it('is refused, like a start, with a key that the database is not sealed with', async () => {
    for (const args of [['secrets', 'reseal'], ['start']]) {
      const { code, stderr } = await run(args, { RELAYOPS_SECRETS_KEY: other });
      expect(code).toBe(2);
      expect(stderr).toMatch(/RELAYOPS_SECRETS_KEY \(secrets\.key\): has the ID [0-9a-f]{16}, but/);
      expect(stderr).not.toContain(other);
    }
    const doctor = await run(['doctor', '--json'], { RELAYOPS_SECRETS_KEY: other });
    expect(doctor.code).toBe(1);
    expect(doctor.stdout).toContain('but this database is sealed with another key');
  });
});

describe('configuration', () => {
  it('is printed with the values in force, secrets masked', async () => {
    const config = await json<Record<string, unknown>>(['config', 'print'], { RELAYOPS_HTTP_PORT: '9999' });
    expect(config).toMatchObject({ 'http.port': 9999, role: 'all', 'auth.jwtSecret': '********' });
    const { stdout } = await run(['config', 'print']);
    for (const secret of [...Object.values(TEST_SECRETS), relay.api.key, relay.test.url])
      expect(stdout + JSON.stringify(config)).not.toContain(secret);
  });

  it('that is bad ends with 2 and names every bad key, and no secret', async () => {
    const { code, stderr, stdout } = await run(['start'], {
      RELAYOPS_HTTP_PORT: 'abc',
      RELAYOPS_ROLE: 'king',
      RELAYOPS_DELIVERY_HTTP2: 'yes',
      RELAYOPS_NO_SUCH_KEY: '1',
      RELAYOPS_DELIVERY_CONCURRENCY: '0',
    });
    expect(code).toBe(2);
    for (const name of ['HTTP_PORT', 'ROLE', 'DELIVERY_HTTP2', 'NO_SUCH_KEY', 'DELIVERY_CONCURRENCY'])
      expect(stderr).toContain(`RELAYOPS_${name}`);
    expect(stderr).not.toContain(TEST_SECRETS['auth.jwtSecret']);
    expect(stdout).toBe('');
  });

  it.each([
    [{ RELAYOPS_DELIVERY_LEASE_MS: '30000' }, 'RELAYOPS_DELIVERY_LEASE_MS'],
    [{ RELAYOPS_AUTH_JWT_SECRET: '' }, 'RELAYOPS_AUTH_JWT_SECRET'],
  ])('that breaks a rule refuses the start: %o', async (broken, name) => {
    const { code, stderr } = await run(['start'], broken);
    expect(code).toBe(2);
    expect(stderr).toContain(name);
  });

  it('with an allow list that is none ends without a trace of a start', async () => {
    const { code, stderr } = await run(['start'], { RELAYOPS_DELIVERY_ALLOW_ADDRESSES: '127.0.0.1/99' });
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/127\.0\.0\.1\/99|allowAddresses/);
  });

  it('is doubted with a hint when a command does not exist', async () => {
    const { code, stderr } = await run(['sned']);
    expect(code).not.toBe(0);
    expect(stderr).toMatch(/unknown command/);
  });
});

describe('send, tail and replay', () => {
  it('send an event with the exact text given, once a key', async () => {
    const receiver = relay.receiver('cli');
    await relay.api.endpoint(receiver.url, 'cli.*');
    const data = '{"big":9007199254740993, "a":1.0}';
    const first = await json<{ eventId: string; deliveries: number }>([
      'send',
      'cli.sent',
      '-d',
      data,
      '-k',
      'cli',
    ]);
    expect(first.deliveries).toBe(1);
    const again = await json<{ eventId: string }>(['send', 'cli.sent', '-d', data, '-k', 'cli']);
    expect(again).toEqual(first);
    const file = path.join(folder, 'data.json');
    await writeFile(file, '[1]');
    await json(['send', 'cli.sent', '-d', `@${file}`]);
    const { code } = await run(['send', 'cli.sent', '-d', '-'], {}, '"from stdin"');
    expect(code).toBe(0);
    await receiver.until((summary) => summary.succeededDeliveries === 3);
    expect(receiver.requests().map(({ body }) => body)).toEqual([data, '[1]', '"from stdin"']);
  });

  it('say what is wrong, and what to do, by exit code and text', async () => {
    const malformed = await run(['send', 'cli.sent', '-d', '{']);
    expect(malformed).toMatchObject({ code: 1, stdout: '' });
    expect(malformed.stderr).toContain('BODY_MALFORMED');
    const unknown = await run(['replay', '01900000-0000-7000-8000-000000000000']);
    expect(unknown.code).toBe(1);
    expect(unknown.stderr).toContain('NOT_FOUND');
    const badKey = await run(['tail', '--once'], { RELAYOPS_CLIENT_API_KEY: 'rok_wrong' });
    expect(badKey.code).toBe(1);
    expect(badKey.stderr).toContain('CREDENTIAL_INVALID');
    const nobodyThere = await run(['tail', '--once'], { RELAYOPS_CLIENT_URL: 'http://127.0.0.1:1' });
    expect(nobodyThere.code).not.toBe(0);
    expect(nobodyThere.stderr).not.toBe('');
  });

  it('show dead deliveries and send them again: one, and many by a filter', async () => {
    const receiver = relay.receiver('cli-dead');
    receiver.configure({ behaviour: { status: 500 } });
    const { endpointId } = await relay.api.endpoint(receiver.url, 'dead.*', { retry: { maxAttempts: 1 } });
    await relay.api.sendMany('dead.one', 5);
    await relay.api.untilSettled();
    receiver.configure({ behaviour: {} });

    const { stdout, code } = await run([
      'tail',
      '--once',
      '--json',
      '--state',
      'dead',
      '--endpoint',
      endpointId,
    ]);
    expect(code).toBe(0);
    const rows = stdout
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line) as { deliveryId: string; state: string; eventType: string });
    expect(rows.map(({ state, eventType }) => [state, eventType])).toEqual(
      Array(5).fill(['dead', 'dead.one']),
    );

    const one = await json<{ deliveryId: string }>(['replay', rows[0]!.deliveryId]);
    expect(one.deliveryId).toBe(rows[0]!.deliveryId);
    await relay.api.untilSettled();
    expect(await json(['replay', '--endpoint', endpointId, '--dry-run'])).toMatchObject({
      count: 4,
      exact: true,
    });
    const job = await json(['replay', '--endpoint', endpointId]);
    expect(job).toMatchObject({ state: 'completed', total: 4, replayed: 4 });
    await relay.api.untilSettled();
    expect(receiver.summary().succeededDeliveries).toBe(5);
    const nothing = await run(['replay']);
    expect(nothing.code).toBe(1);
    expect(nothing.stderr).toContain('REPLAY_SCOPE_MISSING');
  });

  it('listen prints each delivery from the first on, checks it, and leaves no endpoint behind', async () => {
    const before = await relay.count('webhook_endpoints', 'deleted_at IS NULL');
    const { child, output, ended } = spawned(['listen', 'listened.*', '--port', '0', '--json']);
    await until(
      'listening',
      () => output.stderr,
      (text) => text.includes('Listening at'),
    );
    await relay.api.send('listened.one', { n: 1 });
    await relay.api.send('listened.two', { n: 2 });
    const lines = await until(
      'two deliveries',
      () =>
        output.stdout
          .trim()
          .split('\n')
          .filter((line) => line !== ''),
      (found) => found.length === 2,
    );
    const requests = lines.map((line) => JSON.parse(line) as { body: string; signature: string });
    expect(requests.map(({ body, signature }) => [body, signature])).toEqual([
      ['{"n":1}', 'ok'],
      ['{"n":2}', 'ok'],
    ]);
    child.kill('SIGINT');
    expect((await ended).code).toBe(0);
    expect(await relay.count('webhook_endpoints', 'deleted_at IS NULL')).toBe(before);
  });
});

describe('the database', () => {
  it('is brought up to date once, however many try at once', async () => {
    const name = `cli_${Date.now()}`;
    const admin = new pg.Client({ connectionString: inject('postgresUrl') });
    await admin.connect();
    await admin.query(`CREATE DATABASE ${name}`);
    try {
      const url = inject('postgresUrl').replace(/\/postgres$/, `/${name}`);
      const applied = await Promise.all(
        [1, 2, 3].map(() => json<{ applied: string[] }>(['migrate'], { RELAYOPS_DATABASE_URL: url })),
      );
      const names = applied.flatMap((answer) => answer.applied);
      expect(names.length).toBeGreaterThan(0);
      expect(new Set(names).size).toBe(names.length);
      expect(await json(['migrate'], { RELAYOPS_DATABASE_URL: url })).toEqual({ applied: [] });
    } finally {
      await admin.query(`DROP DATABASE ${name}`);
      await admin.end();
    }
  });

  it('gives a bootstrap token, with which a tenant signs up once', async () => {
    const { token, hours } = await json<{ token: string; hours: number }>([
      'bootstrap-token',
      '--hours',
      '1',
    ]);
    expect(hours).toBe(1);
    const nobody = new RelayClient(relay.process.url, '');
    const body = {
      bootstrapToken: token,
      tenantName: 'Cli',
      email: 'cli@example.com',
      password: 'correct horse battery',
    };
    expect((await nobody.call('POST', '/v1/signup', body)).status).toBe(201);
    expect((await nobody.call('POST', '/v1/signup', { ...body, email: 'b@example.com' })).status).toBe(401);
  });

  it('is examined by doctor, which says what is wrong with it', async () => {
    const { code, stdout } = await run(['doctor', '--json']);
    const { findings } = JSON.parse(stdout) as {
      findings: { check: string; status: string; detail: string; remedy: string }[];
    };
    const byCheck = new Map(findings.map((finding) => [finding.check, finding]));
    for (const check of ['configuration', 'postgresql version', 'schema', 'partitions ahead', 'clock'])
      expect(byCheck.get(check), check).toMatchObject({ status: 'ok' });
    // The server of the tests runs without fsync, and doctor must not overlook that.
    expect(byCheck.get('durability')).toMatchObject({ status: 'failed' });
    expect(byCheck.get('durability')!.remedy).not.toBe('');
    expect(code).toBe(1);

    const away = await run(['doctor', '--json'], { RELAYOPS_DATABASE_URL: 'postgres://x@127.0.0.1:1/x' });
    expect(away.code).toBe(1);
    const answers = JSON.parse(away.stdout) as { findings: { check: string; status: string }[] };
    expect(answers.findings.map(({ status }) => status)).toContain('failed');
  });
});

it('start serves on a database of one’s own and ends with 0 on SIGTERM', async () => {
  const { child, output, ended } = spawned(['start', '--port', '0', '--admin-port', '0'], {
    RELAYOPS_LOG_LEVEL: 'warn',
  });
  const line = await until(
    'serving',
    () => output.stdout,
    (text) => /metrics are at (\S+)\n/.test(text),
    20_000,
  );
  const url = /serving at (\S+)\n/.exec(line)![1]!;
  const adminUrl = /metrics are at (\S+)\n/.exec(line)![1]!;
  expect(await relay.api.at(adminUrl).ok('GET', '/readyz')).toMatchObject({ status: 'ready' });
  child.kill('SIGTERM');
  const { code, stderr } = await ended;
  expect(code, stderr).toBe(0);
  await expect(fetch(url)).rejects.toThrow();
});
