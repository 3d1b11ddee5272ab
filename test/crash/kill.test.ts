import { setTimeout as pause } from 'node:timers/promises';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectNothingLost, takeAccount } from './account.ts';
import { CrashSite, say } from './crash-site.ts';

const KILLS = 10;

let site: CrashSite;

beforeAll(async () => {
  site = await CrashSite.open();
});
afterAll(() => site.close());

it('loses nothing of what was answered 202 when its process is killed ten times at random moments (SPEC F5)', async () => {
  site.receiver.configure({ behaviour: { latencyMs: 20, jitterMs: 60 } });
  let child = await site.start('relay-0');
  await site.api.endpoint(site.receiver.url, '*', { maxConcurrency: 64 });
  const load = site.load({ name: 'kill', senders: 16, persistent: true });
  let unknown = 0;
  for (let kill = 1; kill <= KILLS; kill += 1) {
    const afterMs = 100 + Math.floor(Math.random() * 1_400);
    await pause(afterMs);
    expect(await child.end('SIGKILL')).toEqual({ code: null, signal: 'SIGKILL' });
    const inFlight = await site.leasedByTheDead(child.instance);
    unknown += inFlight;
    say(
      `kill ${kill} of ${KILLS} after ${afterMs} ms: ${load.accepted.size} accepted, ${inFlight} in flight`,
    );
    child = await site.start(`relay-${kill}`);
  }
  await load.stop();
  await site.settle();

  const account = await takeAccount(site, [load], [site.receiver]);
  say(JSON.stringify({ ...account, answers: load.answers }));
  expectNothingLost(account, [load]);
  expect(load.refused.size).toBe(0);
  expect(load.accepted.size).toBeGreaterThan(500);
  expect(account.events).toBe(load.accepted.size);
  // Every attempt whose end nobody saw is recorded as such, and nothing else is; only those can have been sent twice.
  expect(account.attemptsByOutcome['unknown'] ?? 0).toBe(unknown);
  expect(account.duplicates).toBeLessThanOrEqual(unknown);
  expect((await child.end('SIGTERM')).code, child.log).toBe(0);
});

it('still knows the keys of before the crash', async () => {
  const child = await site.start('relay-after');
  const again = site.load({ name: 'kill', senders: 0, persistent: true });
  const rows = await site.sql<{ key: string; event_id: string }>(
    'SELECT idempotency_key AS key, event_id FROM relayops.events ORDER BY event_id LIMIT 200',
  );
  for (const { key, event_id } of rows) expect(await again.send(key)).toBe(event_id);
  await child.end('SIGTERM');
});
