import { setTimeout as pause } from 'node:timers/promises';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { TcpProxy } from '../../../test/support/tcp-proxy.ts';
import { testDatabase, type TestDatabase } from '../../../test/support/database.ts';
import { Database, isTransient } from './database.ts';

const SILENCE_MS = 300;

let test: TestDatabase;
let proxy: TcpProxy;
let database: Database;
let idleErrors: Error[];

beforeEach(async () => {
  test = await testDatabase();
  proxy = await TcpProxy.start(test.url);
  idleErrors = [];
  database = new Database({
    url: proxy.through(test.url),
    poolSize: 1,
    acceptancePoolSize: 1,
    deliveryPoolSize: 1,
    connectTimeoutMs: 5_000,
    statementTimeoutMs: 5_000,
    silenceMs: SILENCE_MS,
    applicationName: 'silence',
    onIdleError: (error) => idleErrors.push(error),
  });
});
afterEach(async () => {
  await database.close();
  await proxy.close();
  await test.close();
});

it.each(['acceptance', 'delivery'] as const)(
  'gives up a server that says nothing while a statement of the %s pool is open, and connects anew',
  async (pool) => {
    await database[pool].query('SELECT 1');
    proxy.stall();
    const started = performance.now();
    const error: unknown = await database[pool].query('SELECT 1').catch((reason: unknown) => reason);
    expect(isTransient(error)).toBe(true);
    expect((error as Error).message).toContain(`${SILENCE_MS} ms`);
    expect(performance.now() - started).toBeGreaterThan(SILENCE_MS - 50);
    proxy.heal();
    expect((await database[pool].query<{ n: number }>('SELECT 2 AS n')).rows).toEqual([{ n: 2 }]);
  },
);

it('lets go of idle connections before their silence counts', async () => {
  await database.delivery.query('SELECT 1');
  await pause(SILENCE_MS * 1.5);
  expect(database.delivery.totalCount).toBe(0);
  expect(idleErrors).toEqual([]);
});

it('takes a statement that is answered in pieces for as long as it needs', async () => {
  const { rows } = await database.delivery.query(
    'SELECT i, pg_sleep(0.1), repeat($1, 20000) FROM generate_series(1, 6) AS i',
    ['x'],
  );
  expect(rows).toHaveLength(6);
});
