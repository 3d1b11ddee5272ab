import { afterEach, beforeEach, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import { TcpProxy } from '../../test/support/tcp-proxy.ts';
import { until } from '../../test/support/until.ts';
import { Database, isTransient } from '../platform/db/database.ts';
import { type DeliveryId, type EndpointId, type EventId, newId, type TenantId } from '../shared/ids.ts';
import type { FinishedAttempt } from './finish.sql.ts';
import { Finisher } from './finisher.ts';

let test: TestDatabase;
let proxy: TcpProxy;
let database: Database;

beforeEach(async () => {
  test = await testDatabase();
  proxy = await TcpProxy.start(test.url);
  database = new Database({
    url: proxy.through(test.url),
    poolSize: 1,
    acceptancePoolSize: 1,
    deliveryPoolSize: 1,
    connectTimeoutMs: 5_000,
    statementTimeoutMs: 5_000,
    applicationName: 'finisher',
    onIdleError: () => undefined,
  });
});
afterEach(async () => {
  await database.close();
  await proxy.close();
  await test.close();
});

/** A result of a delivery that nobody holds, which is late, or not taken at all when its status is no status. */
function resultWith(httpStatus: number): FinishedAttempt {
  const now = Date.now();
  return {
    deliveryId: newId<DeliveryId>(now),
    eventId: newId<EventId>(now),
    tenantId: newId<TenantId>(now),
    endpointId: newId<EndpointId>(now),
    leaseToken: '1',
    attemptNumber: 1,
    attempt: {
      startedAtMs: now,
      durationMs: 1,
      outcome: 'success',
      httpStatus,
      errorCode: null,
      errorDetail: null,
      responseHeaders: null,
      responseBody: null,
    },
    next: { kind: 'ended', state: 'succeeded', reason: null },
  };
}

interface Seen {
  readonly finisher: Finisher;
  readonly batches: number[];
  readonly refused: FinishedAttempt[];
  readonly errors: unknown[];
}

function watched(): Seen {
  const seen = { batches: [] as number[], refused: [] as FinishedAttempt[], errors: [] as unknown[] };
  const finisher = new Finisher({
    database,
    worker: 'w',
    maxBatch: 100,
    outbox: null,
    onCommitted: (batch) => seen.batches.push(batch.length),
    onRefused: (result) => seen.refused.push(result),
    onError: (error) => seen.errors.push(error),
  });
  return { finisher, ...seen };
}

it('says that results are taken again when the first answer after an absence refuses one', async () => {
  const { finisher, refused, errors } = watched();
  proxy.cut();
  finisher.add(resultWith(99_999));
  await until(
    'stalled',
    () => finisher.isStalled,
    (isStalled) => isStalled,
  );
  proxy.heal();
  await until(
    'refused',
    () => refused.length,
    (count) => count === 1,
  );
  expect(errors.filter((error) => !isTransient(error))).toHaveLength(1);
  expect(finisher.isStalled).toBe(false);
});

it('keeps one result that the database does not take from holding up its neighbours', async () => {
  const { finisher, batches, refused } = watched();
  const bad = resultWith(99_999);
  for (const result of [resultWith(200), bad, resultWith(200), resultWith(200)]) finisher.add(result);
  await finisher.flush(AbortSignal.timeout(5_000));
  expect(refused).toEqual([bad]);
  expect(batches.reduce((sum, count) => sum + count, 0)).toBe(3);
});
