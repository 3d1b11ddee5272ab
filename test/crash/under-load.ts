import { expect } from 'vitest';
import type { SimulatedReceiver } from '../../src/simulator/index.ts';
import { type Account, expectNothingLost, takeAccount } from './account.ts';
import { type CrashSite, say } from './crash-site.ts';
import type { Load, LoadOptions } from './load.ts';

/** Loads that go on through whatever happens. */
export interface Traffic {
  /** Sends each event until it is accepted. */
  readonly persistent: Load;
  /** Never sends anything twice, so that a refused event that is found in the database was stored by the refused request. */
  readonly once: Load;
}

export interface Course {
  /** Unique: the events' types begin with it and a dot. */
  readonly name: string;
  /** Where the events are delivered. */
  readonly receivers: readonly SimulatedReceiver[];
  /** Of each of the two loads. */
  readonly load?: Partial<LoadOptions>;
  /** Waits until everything has come to its end. */
  readonly settle: () => Promise<unknown>;
}

/** What came of it. */
export interface Outcome extends Account, Traffic {}

const SENDERS = 6;
const FIRST_EVENTS = 50;

/** Lets something happen under load, and checks afterwards that nothing is lost, stored twice or left open. */
export async function underLoad(
  site: CrashSite,
  { name, receivers, load = {}, settle }: Course,
  happening: (traffic: Traffic) => Promise<void>,
): Promise<Outcome> {
  const persistent = site.load({ senders: SENDERS, ...load, name: `${name}.again`, persistent: true });
  const once = site.load({ senders: SENDERS, ...load, name: `${name}.once`, persistent: false });
  const loads = [persistent, once];
  try {
    await persistent.more(FIRST_EVENTS);
    await happening({ persistent, once });
  } finally {
    await Promise.all(loads.map((one) => one.stop()));
  }
  await settle();
  const account = await takeAccount(site, loads, receivers);
  say(JSON.stringify({ ...account, again: persistent.answers, once: once.answers }));
  expectNothingLost(account, loads);
  expect(persistent.refused.size).toBe(0);
  return { ...account, persistent, once };
}
