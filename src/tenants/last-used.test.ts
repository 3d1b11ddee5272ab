import { describe, expect, it } from 'vitest';
import type { Queryable, Statement } from '../platform/db/database.ts';
import type { ApiKeyId, TenantId } from '../shared/ids.ts';
import { LastUsed } from './last-used.ts';

function recorded(answer: () => Promise<unknown> = async () => ({ rows: [] })) {
  const statements: Statement[] = [];
  const warnings: unknown[] = [];
  const clock = { ms: 0, now: () => clock.ms };
  const db = {
    query: (statement: Statement) => {
      statements.push(statement);
      return answer();
    },
  } as Queryable;
  const logger = { warn: (...args: unknown[]) => void warnings.push(args) };
  return { lastUsed: new LastUsed(db, clock, logger), statements, warnings, clock };
}

const tenant = 't' as TenantId;
const key = (n: number): ApiKeyId => `k${n}` as ApiKeyId;

describe('LastUsed', () => {
  it('writes many keys in one statement, each once a minute', async () => {
    const { lastUsed, statements, clock } = recorded();
    for (let i = 0; i < 100; i++) lastUsed.note(tenant, key(i % 2));
    await lastUsed.flush();
    lastUsed.note(tenant, key(1));
    await lastUsed.flush();
    expect(statements.map((statement) => statement.values)).toEqual([['{t,t}', '{k0,k1}']]);
    clock.ms = 60_000;
    lastUsed.note(tenant, key(1));
    await lastUsed.close();
    expect(statements[1]!.values).toEqual(['{t}', '{k1}']);
  });

  it('logs a failure and goes on', async () => {
    const { lastUsed, warnings } = recorded(() => Promise.reject(new Error('away')));
    lastUsed.note(tenant, key(1));
    await expect(lastUsed.flush()).resolves.toBeUndefined();
    expect(warnings).toHaveLength(1);
  });

  it('takes nothing after it was closed', async () => {
    const { lastUsed, statements } = recorded();
    await lastUsed.close();
    lastUsed.note(tenant, key(1));
    await lastUsed.flush();
    expect(statements).toEqual([]);
  });
});
