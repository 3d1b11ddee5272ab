import { beforeAll, expect, it } from 'vitest';
import type { Config } from '../../src/config/index.ts';
import { until } from '../support/until.ts';
import { LEASE_MS, say } from './crash-site.ts';
import type { Fleet } from './fleet.ts';
import type { Seat } from './seat.ts';

const KILLS = 6;

/** Processes that are killed, stand still or are replaced. */
export function processFaults(opened: () => Fleet): void {
  let fleet: Fleet;
  beforeAll(() => {
    fleet = opened();
  });

  /** Outbox rows in the hands of a process. */
  const claimedBy = (seat: Seat): Promise<number> =>
    fleet.site.number(
      'SELECT count(*)::int AS n FROM relayops.outbox_messages WHERE claimed_by = $1',
      seat.child.instance,
    );

  const untilClaimedBy = (seat: Seat): Promise<number> =>
    until(
      'rows without a confirm',
      () => claimedBy(seat),
      (rows) => rows >= 5,
    );

  it.each([
    { what: 'the messages had arrived', name: 'unheard', isMuted: true },
    { what: 'they had not', name: 'unsent', isMuted: false },
  ])(
    'delivers once what a publisher had no confirm for when it was killed: $what (SPEC F2, F5)',
    async ({ name, isMuted }) => {
      const [publisher] = fleet.apis as [Seat];
      const staleBefore = await fleet.messages('stale');
      let left = 0;
      const outcome = await fleet.under(name, {}, async ({ persistent }) => {
        const { rabbitmq } = publisher.network;
        if (isMuted) rabbitmq.mute();
        else rabbitmq.stall();
        await untilClaimedBy(publisher);
        await publisher.child.end('SIGKILL');
        rabbitmq.cut();
        left = await claimedBy(publisher);
        say(`${publisher.child.instance} killed: ${left} of its outbox rows have no confirm`);
        expect(left).toBeGreaterThanOrEqual(5);
        await until(
          'others have published its rows',
          () => claimedBy(publisher),
          (rows) => rows === 0,
        );
        rabbitmq.heal();
        await publisher.start();
        await persistent.more(50);
      });
      const stale = (await fleet.messages('stale')) - staleBefore;
      say(`${stale} messages were duplicates`);
      if (isMuted) expect(stale).toBeGreaterThanOrEqual(left);
      expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
      expect(outcome.duplicates).toBe(0);
    },
  );

  it('absorbs the second message of a row whose publisher was killed between the confirm and its removal (SPEC F5)', async () => {
    const [publisher] = fleet.apis as [Seat];
    const staleBefore = await fleet.messages('stale');
    let confirmed = 0;
    const outcome = await fleet.under('unremoved', {}, async ({ persistent }) => {
      const { rabbitmq } = publisher.network;
      const { instance } = publisher.child;
      rabbitmq.mute();
      await untilClaimedBy(publisher);
      const locks = await fleet.site.session();
      await locks.query('BEGIN');
      const { rowCount } = await locks.query(
        'SELECT FROM relayops.outbox_messages WHERE claimed_by = $1 FOR UPDATE',
        [instance],
      );
      confirmed = rowCount ?? 0;
      rabbitmq.heal();
      await until(
        'a removal that waits',
        () =>
          fleet.site.number(
            `SELECT count(*)::int AS n FROM pg_stat_activity
             WHERE application_name = $1 AND wait_event_type = 'Lock' AND query LIKE '%DELETE FROM relayops.outbox_messages%'`,
            `relayops:${instance}`,
          ),
        (waiting) => waiting > 0,
      );
      await publisher.child.end('SIGKILL');
      // The server would finish the statement of a client that it does not miss yet.
      await fleet.site.sql(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name LIKE $1',
        `relayops:${instance}%`,
      );
      await locks.query('ROLLBACK');
      await locks.end();
      say(`${instance} killed: ${await claimedBy(publisher)} rows left, ${confirmed} of them confirmed`);
      await publisher.start();
      await persistent.more(50);
    });
    const stale = (await fleet.messages('stale')) - staleBefore;
    say(`${stale} messages were duplicates`);
    expect(confirmed).toBeGreaterThanOrEqual(5);
    expect(stale).toBeGreaterThanOrEqual(confirmed);
    expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
    expect(outcome.duplicates).toBe(0);
  });

  it('records as unknown what workers had in flight when they were killed, again and again, and makes those attempts anew (SPEC D3, F5)', async () => {
    let unknown = 0;
    const targets = [{ behaviour: { latencyMs: 50, jitterMs: 250 } }];
    const outcome = await fleet.under('workers', { targets }, async ({ persistent }) => {
      for (let kill = 0; kill < KILLS; kill += 1) {
        const victim = fleet.workers[kill % fleet.workers.length]!;
        await until(
          'requests in flight',
          () => fleet.site.leasedBy(victim.child.instance),
          (leased) => leased >= 3,
        );
        const inFlight = await victim.kill();
        unknown += inFlight;
        say(`${victim.child.instance} killed: ${inFlight} in flight, ${persistent.accepted.size} accepted`);
        await victim.start();
      }
    });
    // Every attempt whose end nobody saw is recorded as such, and nothing else is; only those can have been sent twice.
    expect(outcome.attemptsByOutcome['unknown'] ?? 0).toBe(unknown);
    expect(outcome.duplicates).toBeLessThanOrEqual(unknown);
  });

  it('lets others deliver what a worker holds that stands still beyond its lease, and keeps its late results (SPEC D2)', async () => {
    const [sleeper] = fleet.workers as [Seat];
    let held: string[] = [];
    const targets = [{ behaviour: { latencyMs: 400, jitterMs: 100 } }];
    const outcome = await fleet.under(
      'sleeper',
      { targets },
      async ({ persistent, receivers: [receiver] }) => {
        await until(
          'requests in flight',
          () => fleet.site.leasedBy(sleeper.child.instance),
          (leased) => leased >= 3,
        );
        sleeper.child.signal('SIGSTOP');
        const rows = await fleet.site.sql<{ delivery_id: string }>(
          'SELECT delivery_id FROM relayops.delivery_work WHERE leased_by = $1',
          sleeper.child.instance,
        );
        held = rows.map((row) => row.delivery_id);
        say(`${sleeper.child.instance} stands still with ${held.length} in flight`);
        expect(held.length).toBeGreaterThanOrEqual(3);
        await until(
          'others have delivered them',
          () =>
            fleet.site.number(
              'SELECT count(*)::int AS n FROM relayops.delivery_work WHERE delivery_id = ANY($1)',
              held,
            ),
          (open) => open === 0,
          5 * LEASE_MS,
        );
        const { requests } = receiver!.summary();
        sleeper.child.signal('SIGCONT');
        await until(
          'its late results are kept',
          () =>
            fleet.site.number(
              'SELECT count(DISTINCT delivery_id)::int AS n FROM relayops.late_results WHERE delivery_id = ANY($1)',
              held,
            ),
          (late) => late === held.length,
        );
        say(`late results of all ${held.length}; ${receiver!.summary().requests - requests} requests since`);
        await persistent.more(50);
      },
    );
    expect(outcome.attemptsByOutcome['unknown']).toBe(held.length);
    expect(outcome.lateResults).toBe(held.length);
    expect(outcome.duplicates).toBeLessThanOrEqual(held.length);
    const [first, second] = await fleet.api.attempts(held[0]!);
    expect(first).toMatchObject({
      attemptNumber: 1,
      outcome: 'unknown',
      worker: sleeper.child.instance,
      lateResults: [{ worker: sleeper.child.instance }],
    });
    expect(second).toMatchObject({ attemptNumber: 2, outcome: 'success', lateResults: [] });
    expect(second!.worker).not.toBe(sleeper.child.instance);
  });

  /** One process after the other, as a rollout does it. */
  async function replaceAll(change: Partial<Config>): Promise<void> {
    for (const seat of fleet.seats) {
      const started = performance.now();
      await seat.stop();
      const stoppedMs = Math.round(performance.now() - started);
      await seat.start(change);
      say(`${seat.child.instance} has taken over; its forerunner stopped in ${stoppedMs} ms`);
    }
  }

  it('sends nothing twice while all processes are replaced one by one, and answers no client with an error (SPEC J4)', async () => {
    const outcome = await fleet.under('rolling', {}, async ({ persistent }) => {
      await replaceAll({});
      await persistent.more(50);
    });
    expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
    expect(outcome.duplicates).toBe(0);
    for (const { answers } of [outcome.persistent, outcome.once])
      expect(['202', 'no answer', 'STOPPING']).toEqual(expect.arrayContaining(Object.keys(answers)));
    // Whoever found nobody at the address was not heard either: no request that was taken remained without its answer.
    const unheard = await fleet.site.number(
      'SELECT count(*)::int AS n FROM relayops.events WHERE idempotency_key = ANY($1)',
      [...outcome.once.refused.keys()],
    );
    expect(unheard).toBe(0);
  });

  it('loses nothing and sends nothing twice while the fleet goes over to PostgreSQL alone, and back (SPEC F1, F2)', async () => {
    const outcome = await fleet.under('switch', {}, async ({ persistent }) => {
      await replaceAll({ transport: 'postgres' });
      await persistent.more(50);
      await replaceAll({});
      await persistent.more(50);
    });
    expect(await fleet.messages('claimed')).toBeGreaterThan(0);
    expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
    expect(outcome.duplicates).toBe(0);
  });
}
