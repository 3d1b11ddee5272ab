import { expect, it } from 'vitest';
import { monotonicClock } from '../shared/clock.ts';
import { LaneClaimer } from './lane-claimer.ts';
import { PostgresTransport } from './postgres/index.ts';
import { transportHarness, type TransportSite } from './transport.fixture.ts';

it('gives permits back when the database fails between them and the probe that they are for', async () => {
  let site: TransportSite | undefined;
  const harness = await transportHarness({
    config: {},
    hasMessages: false,
    open: async (own) => {
      site = own;
      return new PostgresTransport({ ...own, clock: monotonicClock });
    },
  });
  const transport = await harness.open();
  const { database, coordination } = site!;
  const [endpointId] = harness.endpoints;
  await harness.accept(endpointId, 1);
  await database.requests.query(
    `INSERT INTO relayops.endpoint_health (endpoint_id, failures, failing_since, outages, open_until, opened)
     VALUES ($1, 5, now() - interval '1 min', 5, now() - interval '1 s', 1)`,
    [endpointId],
  );
  site!.directory.forgetTarget(endpointId);
  const claimer = new LaneClaimer({
    ...site!,
    clock: monotonicClock,
    horizonMs: 1_000,
    takesSwept: () => true,
    onChange: () => undefined,
  });
  try {
    claimer.note(endpointId, 0);
    expect(claimer.hasReady).toBe(true);
    const grants = await claimer.permits(10);
    expect(coordination.held().get(endpointId)).toBe(1);
    await database.requests.query('ALTER TABLE relayops.endpoint_health RENAME TO elsewhere');
    await expect(claimer.claim(grants)).rejects.toThrow('endpoint_health');
    expect(coordination.held().size).toBe(0);
    await database.requests.query('ALTER TABLE relayops.elsewhere RENAME TO endpoint_health');
    const work = await claimer.claim(await claimer.permits(10));
    expect(work.map((one) => one.endpointId)).toEqual([endpointId]);
  } finally {
    await claimer.close();
    await transport.close();
    await harness.close();
  }
});
