import { afterAll, beforeAll, expect, it } from 'vitest';
import { expectNothingLost, takeAccount } from './account.ts';
import { CrashSite, say } from './crash-site.ts';

const STOPS = 4;

let site: CrashSite;

beforeAll(async () => {
  site = await CrashSite.open();
});
afterAll(() => site.close());

it('finishes what is in flight on SIGTERM under load, releases its leases and exits with 0 (SPEC J4)', async () => {
  site.receiver.configure({ behaviour: { latencyMs: 20, jitterMs: 60 } });
  let child = await site.start('relay-0');
  await site.api.endpoint(site.receiver.url, '*', { maxConcurrency: 64 });
  const load = site.load({ name: 'stop', senders: 12, persistent: true });
  for (let stop = 1; stop <= STOPS; stop += 1) {
    await load.more(150);
    const started = performance.now();
    expect((await child.end('SIGTERM')).code, child.log).toBe(0);
    const tookMs = Math.round(performance.now() - started);
    const leased = await site.leasedByTheDead(child.instance);
    say(`stop ${stop} of ${STOPS} took ${tookMs} ms: ${load.accepted.size} accepted, ${leased} still leased`);
    expect(leased).toBe(0);
    // Requests in flight take 80 ms at most; nothing else keeps a process.
    expect(tookMs).toBeLessThan(1_500);
    child = await site.start(`relay-${stop}`);
  }
  await load.stop();
  await site.settle();

  const account = await takeAccount(site, [load], [site.receiver]);
  say(JSON.stringify({ ...account, answers: load.answers }));
  expectNothingLost(account, [load]);
  expect(account).toMatchObject({
    events: load.accepted.size,
    attemptsByOutcome: { success: load.accepted.size },
    duplicates: 0,
  });
  expect(account.attemptsByOutcome).not.toHaveProperty('unknown');
  expect((await child.end('SIGTERM')).code, child.log).toBe(0);
});
