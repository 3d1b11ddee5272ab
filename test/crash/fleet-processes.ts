import { afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { Config } from '../../src/config/index.ts';
import { firstIdAt } from '../../src/shared/ids.ts';
import { until } from '../support/until.ts';
import { LEASE_MS, say } from './crash-site.ts';
import type { Fleet } from './fleet.ts';
import type { Seat } from './seat.ts';

const KILLS = 6;
/** Something is in flight all the time. */
const SLOW = [{ behaviour: { latencyMs: 100, jitterMs: 300 } }];

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

  /** Of rows from now on: what came before a fault may have its confirm, and is about to be removed. */
  const untilNewlyClaimedBy = (seat: Seat): Promise<number> => {
    const first = firstIdAt(Date.now());
    return until(
      'rows without a confirm',
      () =>
        fleet.site.number(
          'SELECT count(*)::int AS n FROM relayops.outbox_messages WHERE claimed_by = $1 AND outbox_id >= $2',
          seat.child.instance,
          first,
        ),
      (rows) => rows >= 5,
    );
  };

  const untilInFlight = (seat: Seat): Promise<number> =>
    until(
      'requests in flight',
      () => fleet.site.leasedBy(seat.child.instance),
      (leased) => leased >= 3,
    );

  const untilTakenOver = (seat: Seat): Promise<number> =>
    until(
      'others have published its rows',
      () => claimedBy(seat),
      (rows) => rows === 0,
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
        await untilNewlyClaimedBy(publisher);
        await publisher.child.end('SIGKILL');
        rabbitmq.cut();
        left = await claimedBy(publisher);
        say(`${publisher.child.instance} killed: ${left} of its outbox rows have no confirm`);
        expect(left).toBeGreaterThanOrEqual(5);
        await untilTakenOver(publisher);
        rabbitmq.heal();
        await publisher.start();
        await persistent.more(25);
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
      await untilNewlyClaimedBy(publisher);
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
      await untilTakenOver(publisher);
      await publisher.start();
      await persistent.more(25);
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
    const outcome = await fleet.under('workers', { targets: SLOW }, async ({ persistent }) => {
      for (let kill = 0; kill < KILLS; kill += 1) {
        const victim = fleet.workers[kill % fleet.workers.length]!;
        await untilInFlight(victim);
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

  describe('one that accepts and delivers', () => {
    /** Deliveries that it claimed without a message. */
    const skipped = ({ child }: Seat): Promise<number> => child.metric('outbox_skipped_total');
    const untilSkipping = (seat: Seat): Promise<number> =>
      until(
        'deliveries without messages',
        () => skipped(seat),
        (count) => count >= 20,
      );
    let seat: Seat;
    beforeEach(async () => {
      [seat] = fleet.apis as [Seat];
      await seat.stop();
      await seat.start({ role: 'all' });
    });
    afterEach(async () => {
      await seat.stop();
      await seat.start();
    });

    it('leaves to others what it had accepted when it is killed, again and again (SPEC F2, F5)', async () => {
      let unknown = 0;
      const outcome = await fleet.under('both', { targets: SLOW }, async ({ persistent }) => {
        for (let kill = 0; kill < KILLS / 2; kill += 1) {
          await untilSkipping(seat);
          await untilInFlight(seat);
          const inFlight = await seat.kill();
          unknown += inFlight;
          say(`${seat.child.instance} killed: ${inFlight} in flight, ${await claimedBy(seat)} rows left`);
          await untilTakenOver(seat);
          await seat.start({ role: 'all' });
          await persistent.more(25);
        }
      });
      expect(outcome.attemptsByOutcome['unknown'] ?? 0).toBe(unknown);
      expect(outcome.duplicates).toBeLessThanOrEqual(unknown);
    });

    it('goes on delivering what it accepts while the broker is away, and sends nothing twice when it stops', async () => {
      const outcome = await fleet.under('alone', { targets: SLOW }, async ({ persistent }) => {
        const { rabbitmq } = seat.network;
        rabbitmq.cut();
        const before = await skipped(seat);
        await until(
          'deliveries without messages and without a broker',
          () => skipped(seat),
          (count) => count >= before + 50,
        );
        rabbitmq.heal();
        await persistent.more(25);
        await seat.stop();
        await seat.start({ role: 'all' });
        await untilSkipping(seat);
      });
      expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
      expect(outcome.duplicates).toBe(0);
    });
  });

  it('lets others deliver what a worker holds that stands still beyond its lease, and keeps its late results (SPEC D2)', async () => {
    const [sleeper] = fleet.workers as [Seat];
    const { instance } = sleeper.child;
    let held: string[] = [];
    let sent: string[] = [];
    const outcome = await fleet.under('sleeper', { targets: SLOW }, async ({ persistent, receivers }) => {
      const receiver = receivers[0]!;
      await untilInFlight(sleeper);
      sleeper.child.signal('SIGSTOP');
      await until(
        'its statements are done',
        () =>
          fleet.site.number(
            `SELECT count(*)::int AS n FROM pg_stat_activity WHERE application_name LIKE $1 AND state = 'active'`,
            `relayops:${instance}%`,
          ),
        (active) => active === 0,
      );
      const rows = await fleet.site.sql<{ delivery_id: string }>(
        'SELECT delivery_id FROM relayops.delivery_work WHERE leased_by = $1',
        instance,
      );
      held = rows.map((row) => row.delivery_id);
      const received = new Set(receiver.deliveries().map(([deliveryId]) => deliveryId));
      sent = held.filter((deliveryId) => received.has(deliveryId));
      say(`${instance} stands still with ${held.length} deliveries, ${sent.length} of them sent`);
      expect(sent.length).toBeGreaterThan(0);
      // So that its results come while others hold the leases.
      receiver.configure({ behaviour: { latencyMs: 700 } });
      await until(
        'others have taken its deliveries',
        () => fleet.site.leasedBy(instance),
        (leases) => leases === 0,
        5 * LEASE_MS,
      );
      sleeper.child.signal('SIGCONT');
      const open = await fleet.site.number(
        'SELECT count(*)::int AS n FROM relayops.delivery_work WHERE delivery_id = ANY($1)',
        held,
      );
      say(`${instance} goes on; ${open} of its deliveries are in the hands of others`);
      expect(open).toBeGreaterThan(0);
      await until(
        'its late results are kept',
        () => lateResults(sent),
        (late) => late === sent.length,
      );
      await persistent.more(20);
    });
    expect(outcome.attemptsByOutcome['unknown']).toBe(held.length);
    expect(outcome.lateResults).toBe(sent.length);
    expect(outcome.duplicates).toBeLessThanOrEqual(held.length);
    const [first, second] = await fleet.api.attempts(sent[0]!);
    expect(first).toMatchObject({
      attemptNumber: 1,
      outcome: 'unknown',
      worker: instance,
      lateResults: [{ worker: instance }],
    });
    expect(second).toMatchObject({ attemptNumber: 2, lateResults: [] });
    expect(second!.worker).not.toBe(instance);
  });

  const lateResults = (deliveryIds: readonly string[]): Promise<number> =>
    fleet.site.number(
      'SELECT count(DISTINCT delivery_id)::int AS n FROM relayops.late_results WHERE delivery_id = ANY($1)',
      deliveryIds,
    );

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
    const outcome = await fleet.under('rolling', { targets: SLOW }, async ({ persistent }) => {
      await replaceAll({});
      await persistent.more(25);
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
    const outcome = await fleet.under('switch', { targets: SLOW }, async ({ persistent }) => {
      await replaceAll({ transport: 'postgres' });
      await persistent.more(25);
      await replaceAll({});
      await persistent.more(25);
    });
    expect(await fleet.messages('claimed')).toBeGreaterThan(0);
    expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
    expect(outcome.duplicates).toBe(0);
  });
}
