import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../support/until.ts';
import { CrashSite, say } from './crash-site.ts';
import type { RelayChild } from './relay-child.ts';
import { type Outcome, type Traffic, underLoad } from './under-load.ts';

const OUTAGE_LIMIT_MS = 30_000;

let site: CrashSite;
let child: RelayChild;

beforeAll(async () => {
  site = await CrashSite.open();
  child = await site.start('relay');
  await site.api.endpoint(site.receiver.url, '*', { maxConcurrency: 64 });
  site.receiver.configure({ behaviour: { latencyMs: 10, jitterMs: 40 } });
});
afterAll(() => site.close());

const under = (name: string, happening: (traffic: Traffic) => Promise<void>): Promise<Outcome> =>
  underLoad(site, { name, receivers: [site.receiver], settle: () => site.settle() }, happening);

const readiness = async (): Promise<number> => (await fetch(`${site.adminUrl}/readyz`)).status;

it.each(['fast', 'immediate'] as const)(
  'answers 503 while PostgreSQL is stopped (%s) and resumes by itself, with nothing lost and nothing stored that was refused (SPEC F5)',
  async (how) => {
    await under(`stop-${how}`, async ({ persistent, once }) => {
      await site.server.stopServer(how);
      say(`PostgreSQL stopped (${how}) after ${persistent.accepted.size + once.accepted.size} accepted`);
      await until('not ready', readiness, (status) => status === 503, OUTAGE_LIMIT_MS);
      expect((await fetch(`${site.adminUrl}/livez`)).status).toBe(200);
      // Both ways of being refused: a group that was being written, and a request that came later.
      await until(
        'refusals',
        () => ({ ...once.answers }),
        (answers) => Object.keys(answers).filter((answer) => answer !== '202').length > 0,
        OUTAGE_LIMIT_MS,
      );
      const refused = await site.api.call('POST', '/v1/events', { type: 'load.refused', payload: 1 });
      expect(refused).toMatchObject({ status: 503, body: { status: 503 } });
      expect(refused.headers.get('content-type')).toMatch(/^application\/problem\+json/);
      expect(Number(refused.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
      await site.server.startServer();
      say('PostgreSQL started');
      await until('ready', readiness, (status) => status === 200, OUTAGE_LIMIT_MS);
      await persistent.more(100);
    });
  },
);

it('resumes when all its connections are ended, again and again', async () => {
  await under('terminate', async ({ persistent }) => {
    for (let round = 1; round <= 8; round += 1) {
      const ended = await site.number(`
        SELECT count(pg_terminate_backend(pid))::int AS n FROM pg_stat_activity WHERE application_name LIKE 'relayops:%'`);
      expect(ended).toBeGreaterThan(0);
      say(`round ${round}: ${ended} connections ended, ${persistent.accepted.size} accepted`);
      await persistent.more(50);
    }
  });
});

it('rides out short crashes of PostgreSQL: what was being written is looked up, and stored once', async () => {
  await under('restart', async ({ persistent }) => {
    for (let round = 1; round <= 6; round += 1) {
      await site.server.stopServer('immediate');
      await site.server.startServer();
      say(`round ${round}: PostgreSQL crashed and came back, ${persistent.accepted.size} accepted`);
      await persistent.more(50);
    }
  });
});

it('loses nothing when it is killed together with PostgreSQL', async () => {
  await under('both', async ({ persistent }) => {
    for (let round = 1; round <= 3; round += 1) {
      await Promise.all([child.end('SIGKILL'), site.server.stopServer('immediate')]);
      await site.server.startServer();
      child = await site.start(`relay-both-${round}`);
      say(`round ${round}: both came back, ${persistent.accepted.size} accepted`);
      await persistent.more(50);
    }
  });
});

it('ends with exit code 0 after all that', async () => {
  expect((await child.end('SIGTERM')).code, child.log).toBe(0);
});
