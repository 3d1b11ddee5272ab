import { setImmediate as turn } from 'node:timers/promises';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { until } from '../../../test/support/until.ts';
import { describeRedis } from '../../../test/support/services.ts';
import { newId, type EndpointId } from '../../shared/ids.ts';
import type { Permit } from '../port.ts';
import { TestProcesses, type TestProcess } from './processes.fixture.ts';

const PROCESSES = 3;
const RUNS = 60;

const step = fc.oneof(
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('acquire' as const), wanted: fc.integer({ min: 0, max: 4 }) }),
  },
  {
    weight: 4,
    arbitrary: fc.record({ kind: fc.constant('release' as const), count: fc.integer({ min: 1, max: 4 }) }),
  },
  { weight: 1, arbitrary: fc.constant({ kind: 'turn' as const }) },
  { weight: 1, arbitrary: fc.constant({ kind: 'settle' as const }) },
);
const steps = fc.array(fc.tuple(fc.nat(PROCESSES - 1), step), { minLength: 5, maxLength: 60 });

describeRedis('redis coordination, three processes', (url) => {
  const processes = new TestProcesses();
  let all: TestProcess[];
  beforeAll(async () => {
    all = [];
    while (all.length < PROCESSES) all.push(await processes.start(url, { slotReuseMs: 5 }));
  });
  afterAll(() => processes.close());

  it('never holds more than the slots, in any order of questions, answers and releases', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: 6 }), steps, async (max, plan) => {
        const endpointId = newId<EndpointId>(Date.now());
        const permits: Permit[][] = all.map(() => []);
        const pending: Promise<void>[] = [];
        const check = (): void => {
          const held = all.reduce(
            (sum, { coordination }) => sum + (coordination.held().get(endpointId) ?? 0),
            0,
          );
          expect(held).toBeLessThanOrEqual(max);
        };
        const acquire = async (index: number, wanted: number): Promise<void> => {
          const grant = await all[index]!.slots(endpointId, wanted, max);
          permits[index]!.push(...grant.permits);
          check();
        };
        const settle = (): Promise<unknown> => Promise.all(pending.splice(0));
        for (const [index, todo] of plan) {
          if (todo.kind === 'acquire') pending.push(acquire(index, todo.wanted));
          else if (todo.kind === 'release')
            all[index]!.coordination.release(permits[index]!.splice(0, todo.count), true);
          else if (todo.kind === 'turn') await turn();
          else await settle();
          check();
        }
        await settle();
        // Nothing leaks: once each connection has had its releases answered, one process gets everything.
        all.forEach(({ coordination }, index) => coordination.release(permits[index]!, true));
        await Promise.all(all.map((one) => one.slots(endpointId, 0, max)));
        const [first] = all;
        await until(
          'everything',
          async () => {
            const { permits: everything } = await first!.slots(endpointId, max, max);
            first!.coordination.release(everything, true);
            return everything.length;
          },
          (slots) => slots === max,
        );
      }),
      { numRuns: RUNS },
    );
    expect(all.flatMap((one) => one.degradations)).toEqual([]);
  });
});
