import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { RelayProcess } from '../../src/app/process.ts';
import type { EndpointId } from '../../src/shared/ids.ts';
import { Relay } from '../support/relay.ts';
import { until } from '../support/until.ts';

/** Long enough for the second worker to start and to take over. */
const LATENCY_MS = 1_500;

let relay: Relay;

beforeAll(async () => {
  // With room for one delivery, the first worker cannot claim again what it is still sending.
  relay = await Relay.start({ instance: 'first', 'delivery.concurrency': 1 });
});
afterAll(() => relay.close());

/** The lease of a delivery runs out, and another worker hears of work at its endpoint. */
async function passOn(deliveryId: string, endpointId: string, other: RelayProcess): Promise<void> {
  await relay.sql(
    `UPDATE relayops.delivery_work SET lease_until = now() - interval '1 ms' WHERE delivery_id = $1`,
    deliveryId,
  );
  other.runtime.transport.announce([{ endpointId: endpointId as EndpointId, inMs: 0 }]);
}

interface Case {
  readonly name: string;
  /** What the receiver answers to the first worker, late, and to the second, at once. */
  readonly late: number;
  readonly prompt: number;
  readonly state: 'succeeded' | 'failed';
  readonly lateOutcome: string;
  readonly promptOutcome: string;
}

describe('a worker whose lease has run out (SPEC D2)', () => {
  it.each<Case>([
    {
      name: 'success-late',
      late: 200,
      prompt: 200,
      state: 'succeeded',
      lateOutcome: 'success',
      promptOutcome: 'success',
    },
    {
      name: 'failure-late',
      late: 400,
      prompt: 200,
      state: 'succeeded',
      lateOutcome: 'rejected',
      promptOutcome: 'success',
    },
    {
      name: 'success-after-failure',
      late: 200,
      prompt: 400,
      state: 'failed',
      lateOutcome: 'success',
      promptOutcome: 'rejected',
    },
  ])(
    'does not overwrite its successor: $name',
    async ({ name, late, prompt, state, lateOutcome, promptOutcome }) => {
      const receiver = relay.receiver(name);
      receiver.configure({ behaviour: { status: late, latencyMs: LATENCY_MS } });
      await relay.api.endpoint(receiver.url, `${name}.one`);
      const { eventId } = await relay.api.send(`${name}.one`);
      await receiver.until((summary) => summary.requests === 1);
      const { deliveryId, endpointId } = await relay.api.deliveryOf(eventId);

      receiver.configure({ behaviour: { status: prompt } });
      const second = await relay.startAnother({ instance: `second-${name}` });
      await passOn(deliveryId, endpointId, second);
      const ended = await relay.api.untilState(deliveryId, state);
      const attempts = await until(
        'late result',
        () => relay.api.attempts(deliveryId),
        ([first]) => first!.lateResults.length > 0,
      );
      expect(attempts).toMatchObject([
        {
          attemptNumber: 1,
          outcome: 'unknown',
          errorCode: 'worker_vanished',
          startedAt: null,
          worker: 'first',
          lateResults: [{ outcome: lateOutcome, httpStatus: late, worker: 'first' }],
        },
        {
          attemptNumber: 2,
          outcome: promptOutcome,
          httpStatus: prompt,
          worker: `second-${name}`,
          lateResults: [],
        },
      ]);
      expect(await relay.api.delivery(deliveryId)).toEqual(ended);
      expect(receiver.summary()).toMatchObject({ requests: 2, uniqueDeliveries: 1 });
      expect(await relay.count('delivery_work')).toBe(0);
      await second.stop();
    },
  );

  it('whose last allowed attempt it was leaves a dead delivery, which was not sent again', async () => {
    const receiver = relay.receiver('last-attempt');
    receiver.configure({ behaviour: { latencyMs: LATENCY_MS } });
    await relay.api.endpoint(receiver.url, 'last.attempt', { retry: { maxAttempts: 1 } });
    const { eventId } = await relay.api.send('last.attempt');
    await receiver.until((summary) => summary.requests === 1);
    const { deliveryId, endpointId } = await relay.api.deliveryOf(eventId);
    const second = await relay.startAnother({ instance: 'second-last' });
    await passOn(deliveryId, endpointId, second);
    expect(await relay.api.untilState(deliveryId, 'dead')).toMatchObject({ reason: 'attempts_exhausted' });
    const attempts = await relay.api.attempts(deliveryId);
    expect(attempts.map(({ outcome }) => outcome)).toEqual(['unknown']);
    expect(receiver.summary().requests).toBe(1);
    await second.stop();
  });
});

it('several workers share the work: each delivery is sent once', async () => {
  const receiver = relay.receiver('shared');
  receiver.configure({ behaviour: { latencyMs: 2, jitterMs: 10 } });
  await relay.api.endpoint(receiver.url, 'shared.one');
  const workers = await Promise.all(
    ['a', 'b', 'c'].map((name) =>
      relay.startAnother({ instance: `shared-${name}`, 'delivery.concurrency': 64 }),
    ),
  );
  await relay.api.sendMany('shared.one', 1_000);
  await receiver.until((summary) => summary.succeededDeliveries === 1_000, 20_000);
  await relay.api.untilSettled();
  expect(receiver.summary()).toMatchObject({ requests: 1_000, uniqueDeliveries: 1_000, duplicates: 0 });
  const used = await relay.sql<{ worker: string }>(
    `SELECT DISTINCT worker FROM relayops.delivery_attempts WHERE worker LIKE 'shared-%'`,
  );
  expect(used.length).toBeGreaterThan(1);
  for (const worker of workers) await worker.stop();
});
