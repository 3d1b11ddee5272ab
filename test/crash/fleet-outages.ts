import { beforeAll, expect, it } from 'vitest';
import { until } from '../support/until.ts';
import { say } from './crash-site.ts';
import { type Fleet, type Scene, STOP_MS } from './fleet.ts';
import type { Servers } from './seat.ts';
import type { Outcome } from './under-load.ts';

const OUTAGE_LIMIT_MS = 30_000;
/** Beyond the limit of a stop: 6 s for results that cannot be committed, 1.5 s for connections that cannot be closed, and moments for the rest. */
const STOP_GRACE_MS = 12_000;

/** PostgreSQL restarts, and a network that fails. */
export function outages(opened: () => Fleet): void {
  let fleet: Fleet;
  beforeAll(() => {
    fleet = opened();
  });

  /** Only attempts whose end nobody could write down were made again. */
  function expectExplained({ attemptsByOutcome, duplicates }: Outcome): void {
    const { success: _, unknown = 0, ...others } = attemptsByOutcome;
    expect(others).toEqual({});
    expect(duplicates).toBeLessThanOrEqual(unknown);
  }

  it.each(['fast', 'immediate'] as const)(
    'resumes by itself when PostgreSQL was away (stopped: %s) until events were refused (SPEC F5)',
    async (how) => {
      const outcome = await fleet.under(`database-${how}`, {}, async ({ persistent, once }) => {
        const refused = once.refused.size;
        await fleet.site.server.stopServer(how);
        await until(
          'events are refused',
          () => once.refused.size,
          (size) => size >= refused + 10,
          OUTAGE_LIMIT_MS,
        );
        await fleet.site.server.startServer();
        await persistent.more(40);
        say(`PostgreSQL was away until events were refused: ${JSON.stringify(once.answers)}`);
      });
      expectExplained(outcome);
    },
  );

  it('keeps results that come while PostgreSQL restarts or crashes, and commits them afterwards (SPEC F5)', async () => {
    let leases = 0;
    const targets = [{ behaviour: { latencyMs: 100, jitterMs: 300 } }];
    const outcome = await fleet.under('restarted', { targets }, async ({ persistent }) => {
      for (const how of ['fast', 'immediate', 'fast', 'immediate'] as const) {
        leases += await leasesInForce();
        await fleet.site.server.stopServer(how);
        await fleet.site.server.startServer();
        await persistent.more(25);
      }
    });
    const { unknown = 0 } = outcome.attemptsByOutcome;
    say(`${leases} deliveries were in flight; the end of ${unknown} is unknown`);
    expectExplained(outcome);
    // Only those that were claimed by a statement whose answer was lost: one a worker and restart at most, for a few.
    expect(unknown).toBeLessThan(leases / 10);
  });

  it('resumes when all connections to PostgreSQL are ended, again and again (SPEC F5)', async () => {
    const outcome = await fleet.under('terminated', {}, async ({ persistent }) => {
      for (let round = 1; round <= 6; round += 1) {
        const ended = await fleet.site.number(`
          SELECT count(pg_terminate_backend(pid))::int AS n FROM pg_stat_activity WHERE application_name LIKE 'relayops:%'`);
        expect(ended).toBeGreaterThan(fleet.seats.length);
        say(`round ${round}: ${ended} connections ended, ${persistent.accepted.size} accepted`);
        await persistent.more(25);
      }
    });
    expectExplained(outcome);
  });

  interface Readiness {
    readonly dependencies: readonly { readonly name: string; readonly up: boolean }[];
  }

  /** Waits until every worker says that it can, or cannot, reach the server. */
  async function untilSeen(name: string, isUp: boolean): Promise<void> {
    await Promise.all(
      fleet.workers.map(({ child }) =>
        until(
          `${name} is ${isUp ? 'up' : 'away'} for ${child.instance}`,
          async () => (await fetch(`${child.adminUrl}/readyz`)).json() as Promise<Readiness>,
          ({ dependencies }) => dependencies.find((one) => one.name === name)?.up === isUp,
          OUTAGE_LIMIT_MS,
        ),
      ),
    );
  }

  const leasesInForce = (): Promise<number> =>
    fleet.site.number('SELECT count(*)::int AS n FROM relayops.delivery_work WHERE lease_until > now()');

  interface Cut {
    readonly server: keyof Servers;
    /** As readiness names it. */
    readonly name: string;
    /** What is to happen before the network is mended. */
    readonly meanwhile: (scene: Scene) => Promise<unknown>;
  }

  const delivers = async ({ persistent, receivers: [receiver] }: Scene): Promise<void> => {
    const { succeededDeliveries } = receiver!.summary();
    await persistent.more(40);
    await receiver!.until((seen) => seen.succeededDeliveries >= succeededDeliveries + 80, OUTAGE_LIMIT_MS);
  };

  it.each<Cut>([
    { server: 'rabbitmq', name: 'rabbitmq', meanwhile: delivers },
    { server: 'redis', name: 'redis', meanwhile: delivers },
    {
      server: 'postgres',
      name: 'postgresql',
      // Longer than a lease: what was in flight is anybody's then.
      meanwhile: async ({ persistent }) => {
        await persistent.more(40);
        await until('leases have run out', leasesInForce, (leases) => leases === 0);
      },
    },
  ])(
    'rides out a network without a way from the workers to $name: cut, and a black hole (SPEC F5)',
    async ({ server, name, meanwhile }) => {
      const outcome = await fleet.under(`network-${server}`, {}, async (scene) => {
        for (const fault of ['cut', 'stall'] as const) {
          const started = performance.now();
          for (const { network } of fleet.workers) network[server][fault]();
          await untilSeen(name, false);
          const seenMs = Math.round(performance.now() - started);
          await meanwhile(scene);
          for (const { network } of fleet.workers) network[server].heal();
          const healed = performance.now();
          await untilSeen(name, true);
          await delivers(scene);
          say(
            `${name} ${fault}: seen after ${seenMs} ms, mended after ${Math.round(healed - started)} ms, delivering ${Math.round(performance.now() - healed)} ms later`,
          );
        }
      });
      expectExplained(outcome);
      if (server !== 'postgres') expect(outcome.attemptsByOutcome).toEqual({ success: outcome.events });
    },
  );

  it('stops workers within their time though they cannot reach a server, and leaves their work to others (SPEC J4)', async () => {
    const outcome = await fleet.under('farewell', {}, async ({ persistent }) => {
      const servers = ['postgres', 'rabbitmq', 'redis'] as const;
      await Promise.all(
        servers.map(async (server, n) => {
          const seat = fleet.workers[n]!;
          seat.network[server].stall();
          const started = performance.now();
          await seat.stop();
          const tookMs = Math.round(performance.now() - started);
          say(`${seat.child.instance} without ${server} stopped in ${tookMs} ms`);
          expect(tookMs).toBeLessThan(STOP_MS + STOP_GRACE_MS);
          seat.network[server].heal();
          await seat.start();
        }),
      );
      await persistent.more(25);
    });
    expectExplained(outcome);
  });
}
