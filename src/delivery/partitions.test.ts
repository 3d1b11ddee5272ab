import { afterAll, beforeAll, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import { ensurePartitions } from './retention.sql.ts';

const PARENTS = ['events', 'deliveries', 'delivery_attempts'];
const WEEK = `'2031-01-06 00:00Z', '2031-01-07 00:00Z'`;

let test: TestDatabase;
beforeAll(async () => void (test = await testDatabase()));
afterAll(() => test.close());

const rows = async <Row extends Record<string, unknown>>(
  text: string,
  ...values: unknown[]
): Promise<Row[]> => (await test.database.requests.query<Row>({ text, values })).rows;

/** Indexes of a child, without its name, and whether each belongs to one of the parent. */
const indexesOf = (child: string) =>
  rows<{ definition: string; attached: boolean; primary: boolean }>(
    `SELECT regexp_replace(pg_get_indexdef(i.indexrelid), '^.* USING ', '') AS definition, i.indisprimary AS primary,
            EXISTS (SELECT 1 FROM pg_inherits h WHERE h.inhrelid = i.indexrelid) AS attached
     FROM pg_index i WHERE i.indrelid = ('relayops.' || $1)::regclass ORDER BY 1`,
    child,
  );
const constraintsOf = (child: string) =>
  rows(
    `SELECT contype, pg_get_constraintdef(oid) AS definition, coninhcount FROM pg_constraint
     WHERE conrelid = ('relayops.' || $1)::regclass ORDER BY 1, 2`,
    child,
  );

it('a new partition is what CREATE TABLE … PARTITION OF would have made', async () => {
  expect(await rows(`SELECT relayops.ensure_partitions(${WEEK}) AS made`)).toEqual([{ made: 3 }]);
  expect(await rows(`SELECT relayops.ensure_partitions(${WEEK}) AS made`)).toEqual([{ made: 0 }]);
  for (const parent of PARENTS) {
    const [made, model] = [`${parent}_2031w02`, `${parent}_model`];
    await rows(
      `CREATE TABLE relayops.${model} PARTITION OF relayops.${parent}
       FOR VALUES FROM ('f0000000-0000-0000-0000-000000000000') TO ('f1000000-0000-0000-0000-000000000000')`,
    );
    const indexes = await indexesOf(made);
    expect(indexes).toEqual(await indexesOf(model));
    expect(indexes.every(({ attached }) => attached)).toBe(true);
    expect(indexes.filter(({ primary }) => primary)).toHaveLength(1);
    expect(await constraintsOf(made)).toEqual(await constraintsOf(model));
  }
  const options = await rows(`SELECT reloptions FROM pg_class WHERE relname = 'deliveries_2031w02'`);
  expect(options).toEqual([{ reloptions: ['fillfactor=55'] }]);
});

it('is made without locking readers and writers of the others out', async () => {
  const locks = await test.database.transaction(async (tx) => {
    await tx.query({ text: `SELECT relayops.ensure_partitions('2031-02-03 00:00Z', '2031-02-04 00:00Z')` });
    return (
      await tx.query<{ mode: string }>({
        text: `SELECT DISTINCT mode FROM pg_locks
          WHERE pid = pg_backend_pid() AND relation::regclass::text = ANY($1) ORDER BY 1`,
        values: [PARENTS.map((parent) => `relayops.${parent}`)],
      })
    ).rows;
  });
  expect(locks.map(({ mode }) => mode)).toEqual(['AccessShareLock', 'ShareUpdateExclusiveLock']);
});

it('the week of yesterday is there too, for events that another clock has dated a little back', async () => {
  const yesterday = async () =>
    rows<{ child: string | null }>(
      `SELECT to_regclass('relayops.events_' || to_char(now() AT TIME ZONE 'UTC' - interval '1 day', 'IYYY"w"IW'))::text AS child`,
    );
  const [{ child } = { child: null }] = await yesterday();
  if (child !== null) await rows(`DROP TABLE ${child}`);
  await ensurePartitions(test.database.requests, 21);
  expect((await yesterday())[0]?.child).toMatch(/^relayops\.events_/);
});
