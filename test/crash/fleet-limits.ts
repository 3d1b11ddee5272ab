import { setTimeout as pause } from 'node:timers/promises';
import { beforeAll, expect, it } from 'vitest';
import { until } from '../support/until.ts';
import { say } from './crash-site.ts';
import type { Fleet, Target } from './fleet.ts';
import { Gauge } from './gauge.ts';

/** Limits over all workers while Redis fails, and neighbours of an endpoint that hangs. */
export function limitFaults(opened: () => Fleet): void {
  let fleet: Fleet;
  beforeAll(() => {
    fleet = opened();
  });

  /** Less than what is sent to it, so that the limit is what holds it back. */
  const SLOTS = 4;
  const RATE = { ratePerSecond: 30, rateBurst: 15 };
  const LIMITED: readonly Target[] = [
    { behaviour: { latencyMs: 120 }, settings: { maxConcurrency: SLOTS } },
    { behaviour: {}, settings: { maxConcurrency: 64, ...RATE } },
  ];
  /** How long is measured: longer than the heartbeat with which processes tell Redis anew what they hold. */
  const PHASE_MS = 1_500;
  /** In one second comes what is refilled in it and, at first, the burst. */
  const USUAL_RATE = RATE.ratePerSecond + RATE.rateBurst;
  /** A bucket that was forgotten is full: one refill more. */
  const REFILLED_RATE = USUAL_RATE + RATE.rateBurst;

  it('keeps slots and rates over all workers while Redis restarts and forgets, within what that explains (SPEC F3, F4)', async () => {
    const outcome = await fleet.under('limits', { targets: LIMITED }, async ({ receivers, endpointIds }) => {
      const [slots, rate] = receivers.map((receiver) => new Gauge(receiver)) as [Gauge, Gauge];

      const seen = async (what: string, act: () => Promise<unknown>): Promise<void> => {
        slots.begin();
        rate.begin();
        await act();
        await pause(PHASE_MS);
        say(
          `${what}: at most ${slots.most} of ${SLOTS} slots, ${rate.mostWithin(1_000)} requests in a second`,
        );
      };
      await seen('quiet', async () => undefined);
      expect(slots.most).toBe(SLOTS);
      expect(rate.mostWithin(1_000)).toBeLessThanOrEqual(USUAL_RATE);

      for (let round = 1; round <= 2; round += 1) {
        await seen('scripts forgotten', () => fleet.redis.ask('SCRIPT FLUSH'));
        expect(slots.most).toBeLessThanOrEqual(SLOTS);
        expect(rate.mostWithin(1_000)).toBeLessThanOrEqual(USUAL_RATE);
      }
      for (let round = 1; round <= 2; round += 1) {
        await seen('everything forgotten', () => fleet.redis.ask('FLUSHALL'));
        // The first to ask gets what it thinks is free: all but its own. What the others hold is on top until they say so.
        expect(slots.most).toBeLessThanOrEqual(2 * SLOTS);
        expect(rate.mostWithin(1_000)).toBeLessThanOrEqual(REFILLED_RATE);
      }
      await seen('Redis stopped', async () => {
        await fleet.redis.stop('graceful');
        await untilDegraded(1);
      });
      // One worker may hold all slots by the word of Redis; each of the others may use its share, which is one.
      expect(slots.most).toBeLessThanOrEqual(SLOTS + fleet.workers.length - 1);
      expect(rate.mostWithin(1_000)).toBeLessThanOrEqual(USUAL_RATE);
      await seen('Redis started, empty', async () => {
        await fleet.redis.startAgain();
        await untilDegraded(0);
      });
      expect(slots.most).toBeLessThanOrEqual(SLOTS + fleet.workers.length - 1);
      expect(rate.mostWithin(1_000)).toBeLessThanOrEqual(REFILLED_RATE);

      // What the limits have held back need not be waited for.
      const unlimited = { maxConcurrency: 64, ratePerSecond: null };
      for (const endpointId of endpointIds)
        await fleet.api.ok('PATCH', `/v1/endpoints/${endpointId}`, unlimited);
    });
    expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
    expect(outcome.duplicates).toBe(0);
  });

  async function untilDegraded(value: 0 | 1): Promise<void> {
    await Promise.all(
      fleet.workers.map(({ child }) =>
        until(
          `${child.instance} ${value === 1 ? 'goes on under local limits' : 'asks Redis again'}`,
          () => child.metric('coordination_degraded'),
          (degraded) => degraded === value,
        ),
      ),
    );
  }

  const NEIGHBOURS = 48;
  const HUNG_EVENTS = 1_000;
  /** Half the time-out of the attempts that hang. */
  const HELD_UP_MS = 500;

  it('does not let an endpoint that hangs, with a big backlog, hold up 48 others over three workers (SPEC F5)', async () => {
    const hung = fleet.site.simulator.receiver('hung');
    hung.configure({ behaviour: { hang: true } });
    await fleet.api.endpoint(hung.url, 'hung.one');
    const targets = Array.from({ length: NEIGHBOURS }, () => ({}));
    const outcome = await fleet.under('neighbours', { targets }, async ({ persistent }) => {
      const quiet = await p99Of(() => persistent.more(200));
      await fleet.api.sendMany('hung.one', HUNG_EVENTS);
      await hung.until(({ requests }) => requests >= 16);
      const { requests } = hung.summary();
      const beside = await p99Of(() => persistent.more(200));
      const more = hung.summary().requests - requests;
      say(`p99 of acceptance to delivery: ${quiet} ms quiet, ${beside} ms beside ${more} requests that hang`);
      expect(beside).toBeLessThanOrEqual(quiet + HELD_UP_MS);
      hung.configure({ behaviour: {} });
    });
    expect(hung.summary().succeededDeliveries).toBe(HUNG_EVENTS);
    expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
    expect(outcome.duplicates).toBe(0);
  });

  /** Milliseconds from acceptance to the end of the delivery, of the events that are accepted meanwhile. */
  async function p99Of(sending: () => Promise<void>): Promise<number> {
    const now = 'SELECT extract(epoch FROM now())::float8 AS n';
    const from = await fleet.site.number(now);
    await sending();
    const to = await fleet.site.number(now);
    await until(
      'those are delivered',
      () =>
        fleet.site.number(
          `SELECT count(*)::int AS n FROM relayops.events e JOIN relayops.deliveries d USING (tenant_id, event_id)
           WHERE e.type LIKE 'neighbours.%' AND e.accepted_at <= to_timestamp($1) AND d.finished_at IS NULL`,
          to,
        ),
      (open) => open === 0,
    );
    return fleet.site.number(
      `SELECT round(1000 * percentile_disc(0.99) WITHIN GROUP (ORDER BY extract(epoch FROM d.finished_at - e.accepted_at)))::int AS n
       FROM relayops.events e JOIN relayops.deliveries d USING (tenant_id, event_id)
       WHERE e.type LIKE 'neighbours.%' AND e.accepted_at BETWEEN to_timestamp($1) AND to_timestamp($2)`,
      from,
      to,
    );
  }
}
