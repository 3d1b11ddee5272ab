import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { type TestDatabase, testDatabase } from '../../test/support/database.ts';
import { loadConfig } from '../config/index.ts';
import { type EndpointId, newId, type TenantId } from '../shared/ids.ts';
import { Admission, Gate } from './admission.ts';

describe('a gate', () => {
  it('closes at its high threshold, and opens below its low one only', () => {
    const gate = new Gate('pending', 10, 5);
    const full = [9, 10, 7, 5, 4, 9, 12].map((value) => {
      gate.see(value);
      return gate.state().full;
    });
    expect(full).toEqual([false, true, true, true, false, false, true]);
  });
});

describe('admission (SPEC C4)', () => {
  let test: TestDatabase;
  const [greedy, modest, absent] = Array.from({ length: 3 }, () => newId<TenantId>(Date.now()));
  let ready = 0;

  beforeEach(async () => {
    test = await testDatabase();
    ready = 0;
  });
  afterEach(() => test.close());

  const admission = (messages = false) =>
    new Admission({
      database: test.database,
      config: loadConfig(
        {},
        {
          'ingest.backlogHigh': 1_000,
          'ingest.backlogLow': 800,
          'ingest.outboxHigh': 50,
          'ingest.outboxLow': 20,
          'ingest.readyHigh': 100,
          'ingest.readyLow': 50,
          'ingest.tenantShare': 0.6,
        },
      ),
      ...(messages ? { readyMessages: async () => ready } : {}),
      onSample: () => undefined,
      onError: (error) => {
        throw error;
      },
    });

  const open = (tenantId: TenantId | undefined, count: number): Promise<unknown> =>
    test.database.requests.query(
      `INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at)
       SELECT gen_random_uuid(), gen_random_uuid(), $1, $2, now() FROM generate_series(1, $3)`,
      [tenantId, newId<EndpointId>(Date.now()), count],
    );
  const verdicts = (under: Admission) =>
    [greedy, modest, absent].map((tenantId) => under.refusal(tenantId!)?.why ?? null);

  it("closes for the tenant that holds more than its share, and for nobody else, until it is below the share's low mark", async () => {
    const gate = admission();
    await open(greedy, 600);
    await open(modest, 20);
    await gate.look();
    expect(verdicts(gate)).toEqual(['tenant', null, null]);
    await test.database.requests.query(
      'DELETE FROM relayops.delivery_work WHERE ctid = ANY(ARRAY(SELECT ctid FROM relayops.delivery_work WHERE tenant_id = $1 LIMIT 100))',
      [greedy],
    );
    await gate.look();
    expect(verdicts(gate)).toEqual(['tenant', null, null]);
    await test.database.requests.query(
      'DELETE FROM relayops.delivery_work WHERE ctid = ANY(ARRAY(SELECT ctid FROM relayops.delivery_work WHERE tenant_id = $1 LIMIT 100))',
      [greedy],
    );
    await gate.look();
    expect(verdicts(gate)).toEqual([null, null, null]);
  });

  it('closes, when all together are too many, for those that hold their fair share or more; far above it for all', async () => {
    const gate = admission();
    await open(greedy, 550);
    await open(absent, 500);
    await open(modest, 20);
    await gate.look();
    expect(verdicts(gate)).toEqual(['pending', null, 'pending']);
    await open(absent, 300);
    await gate.look();
    expect(verdicts(gate)).toEqual(['pending', 'pending', 'pending']);
  });

  it('closes by the outbox and by the ready queue when there is a broker', async () => {
    const gate = admission(true);
    await open(greedy, 100);
    await open(modest, 10);
    await test.database.requests.query(
      `INSERT INTO relayops.outbox_messages (outbox_id, delivery_id, endpoint_id)
       SELECT gen_random_uuid(), gen_random_uuid(), gen_random_uuid() FROM generate_series(1, 50)`,
    );
    await gate.look();
    expect(verdicts(gate)).toEqual(['outbox', null, null]);
    await test.database.requests.query('DELETE FROM relayops.outbox_messages');
    await gate.look();
    expect(verdicts(gate)).toEqual([null, null, null]);
    ready = 126;
    await gate.look();
    expect(verdicts(gate)).toEqual(['ready', 'ready', 'ready']);
    ready = 60;
    await gate.look();
    expect(gate.state().full).toBe(true);
    ready = 49;
    await gate.look();
    expect(verdicts(gate)).toEqual([null, null, null]);
  });

  it('estimates shares of a large backlog from a sample', async () => {
    const gate = admission();
    for (let round = 0; round < 3; round += 1) {
      await open(greedy, 25_000);
      await open(modest, 5_000);
    }
    await test.database.requests.query('ANALYZE relayops.delivery_work');
    await test.database.requests.query('SELECT pg_stat_force_next_flush()');
    await gate.look();
    expect(verdicts(gate)[0]).toBe('pending');
    const detail = gate.refusal(greedy!)?.detail ?? '';
    expect(Number(/\d+/.exec(detail)?.[0])).toBeGreaterThan(60_000);
  });
});
