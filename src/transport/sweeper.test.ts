import { setTimeout as pause } from 'node:timers/promises';
import { expect, it } from 'vitest';
import { testDatabase } from '../../test/support/database.ts';
import { until } from '../../test/support/until.ts';
import { loadConfig } from '../config/index.ts';
import { monotonicClock } from '../shared/clock.ts';
import { type EndpointId, newId } from '../shared/ids.ts';
import { Lanes } from './lanes.ts';
import { Sweeper } from './sweeper.ts';

/** Paced by such a sweep alone, the next one would come twenty times as much later. */
const SLOW_MS = 500;

it('finds the work of endpoints it never heard of soon, though its first full sweep only waited', async () => {
  const test = await testDatabase();
  const { database } = test;
  const lanes = new Lanes();
  const sweeper = new Sweeper({
    lanes,
    database,
    config: loadConfig({}, { 'delivery.sweepMs': 50 }),
    clock: monotonicClock,
    onSwept: async () => undefined,
    onChange: () => undefined,
    onError: (error) => {
      throw error;
    },
  });
  try {
    const lock = await database.requests.connect();
    await lock.query('BEGIN');
    await lock.query('LOCK TABLE relayops.delivery_work IN ACCESS EXCLUSIVE MODE');
    await sweeper.turn();
    await pause(SLOW_MS);
    await lock.query('COMMIT');
    lock.release();
    await sweeper.close();
    const endpointId = newId<EndpointId>(Date.now());
    await database.requests.query(
      `INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at)
       VALUES ($1, $1, $1, $2, now())`,
      [newId(Date.now()), endpointId],
    );
    const started = performance.now();
    await until(
      'the endpoint is known',
      async () => {
        await sweeper.turn();
        return lanes.isReady(endpointId);
      },
      Boolean,
    );
    expect(performance.now() - started).toBeLessThan(SLOW_MS * 5);
  } finally {
    await sweeper.close();
    await test.close();
  }
});
