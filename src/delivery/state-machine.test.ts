import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { testDatabase, type TestDatabase } from '../../test/support/database.ts';
import {
  type DeliveryId,
  type EndpointId,
  type EventId,
  newId,
  type TenantId,
  timeOfId,
} from '../shared/ids.ts';
import { claimWork } from './claim.sql.ts';
import { cancelDelivery } from './delivery.sql.ts';
import { type FinishedAttempt, finishWork, type NextState, type RecordedAttempt } from './finish.sql.ts';
import { reopenDeliveries } from './replay.sql.ts';

/** What may happen to one delivery, in any order. */
type Action =
  | { readonly kind: 'claim' }
  | {
      readonly kind: 'finish';
      readonly result: 'succeeded' | 'failed' | 'dead' | 'retry' | 'defer';
      readonly token: 'held' | 'stale';
    }
  | { readonly kind: 'lease runs out' }
  | { readonly kind: 'cancel' }
  | { readonly kind: 'replay' };

const actions: fc.Arbitrary<Action> = fc.oneof(
  { weight: 4, arbitrary: fc.constant<Action>({ kind: 'claim' }) },
  {
    weight: 5,
    arbitrary: fc.record({
      kind: fc.constant('finish' as const),
      result: fc.constantFrom(
        'succeeded' as const,
        'failed' as const,
        'dead' as const,
        'retry' as const,
        'defer' as const,
      ),
      token: fc.constantFrom('held' as const, 'held' as const, 'stale' as const),
    }),
  },
  { weight: 2, arbitrary: fc.constant<Action>({ kind: 'lease runs out' }) },
  { weight: 1, arbitrary: fc.constant<Action>({ kind: 'cancel' }) },
  { weight: 2, arbitrary: fc.constant<Action>({ kind: 'replay' }) },
);

/** What must be true of the delivery, kept in plain variables. */
interface Model {
  state: 'open' | 'succeeded' | 'failed' | 'dead' | 'cancelled';
  /** Numbers of attempts that ended one way or another. */
  recorded: number;
  /** The lease that counts, with its attempt number. */
  lease: { token: string; attempt: number; live: boolean } | null;
  /** A lease that was lost. */
  stale: { token: string; attempt: number } | null;
}

let test: TestDatabase;
beforeAll(async () => void (test = await testDatabase()));
afterAll(() => test.close());

describe('the state machine of a delivery', () => {
  it('holds its invariants under every order of claims, results, lost leases, cancels and replays', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(actions, { minLength: 1, maxLength: 14 }), async (sequence) => {
        const delivery = await Subject.create();
        for (const action of sequence) {
          await delivery.apply(action);
          await delivery.check(action);
        }
      }),
      { numRuns: 60 },
    );
  });
});

interface Ids {
  readonly deliveryId: DeliveryId;
  readonly eventId: EventId;
  readonly tenantId: TenantId;
  readonly endpointId: EndpointId;
}

/** One real delivery and its model. */
class Subject {
  readonly #ids: Ids;
  readonly #model: Model = { state: 'open', recorded: 0, lease: null, stale: null };

  private constructor(ids: Ids) {
    this.#ids = ids;
  }

  static async create(): Promise<Subject> {
    const eventId = newId<EventId>(Date.now());
    const ids = {
      eventId,
      deliveryId: newId<DeliveryId>(timeOfId(eventId)),
      tenantId: newId<TenantId>(Date.now()),
      endpointId: newId<EndpointId>(Date.now()),
    };
    const { requests } = test.database;
    await requests.query(
      "INSERT INTO relayops.deliveries (tenant_id, event_id, endpoint_id, delivery_id, event_type) VALUES ($1, $2, $3, $4, 't')",
      [ids.tenantId, ids.eventId, ids.endpointId, ids.deliveryId],
    );
    await requests.query(
      'INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at) VALUES ($1, $2, $3, $4, now())',
      [ids.deliveryId, ids.eventId, ids.tenantId, ids.endpointId],
    );
    return new Subject(ids);
  }

  async apply(action: Action): Promise<void> {
    switch (action.kind) {
      case 'claim':
        return this.#claim();
      case 'finish':
        return this.#finish(action.result, action.token);
      case 'lease runs out':
        return this.#expire();
      case 'cancel':
        return this.#cancel();
      case 'replay':
        return this.#replay();
    }
  }

  async #claim(): Promise<void> {
    const want = [{ endpointId: this.#ids.endpointId, slots: 5, floorMs: 0 }];
    const rows = await claimWork(test.database.delivery, want, { ms: 60_000, worker: 'w' }, 1_000);
    const model = this.#model;
    const claimable = model.state === 'open' && !(model.lease?.live ?? false);
    expect(rows).toHaveLength(claimable ? 1 : 0);
    if (!claimable) return;
    if (model.lease) {
      // Its worker vanished: the attempt is recorded as unknown.
      model.recorded += 1;
      model.stale = model.lease;
    }
    model.lease = { token: rows[0]!.lease_token, attempt: rows[0]!.attempt_no, live: true };
    expect(model.lease.attempt).toBe(model.recorded + 1);
    expect(model.lease.token).not.toBe(model.stale?.token);
  }

  async #finish(
    result: 'succeeded' | 'failed' | 'dead' | 'retry' | 'defer',
    which: 'held' | 'stale',
  ): Promise<void> {
    const model = this.#model;
    const lease = which === 'held' ? model.lease : model.stale;
    if (lease === null) return;
    const late = await finishWork(test.database.delivery, 'w', [this.#result(lease, result)], null);
    if (which === 'stale') {
      expect(late).toEqual(result === 'defer' ? [] : [this.#ids.deliveryId]);
      return;
    }
    expect(late).toEqual([]);
    model.lease = null;
    if (result !== 'defer') model.recorded += 1;
    if (result === 'succeeded' || result === 'failed' || result === 'dead') model.state = result;
  }

  async #expire(): Promise<void> {
    if (!this.#model.lease) return;
    this.#model.lease.live = false;
    await test.database.requests.query(
      "UPDATE relayops.delivery_work SET lease_until = now() - interval '1 s' WHERE delivery_id = $1",
      [this.#ids.deliveryId],
    );
  }

  async #cancel(): Promise<void> {
    const model = this.#model;
    expect(
      await cancelDelivery(test.database.requests, this.#ids.tenantId, this.#ids.deliveryId, 'test'),
    ).toBe(model.state === 'open');
    if (model.state !== 'open') return;
    model.state = 'cancelled';
    if (model.lease) {
      model.recorded += 1;
      model.stale = model.lease;
    }
    model.lease = null;
  }

  async #replay(): Promise<void> {
    const model = this.#model;
    const key = { event_id: this.#ids.eventId, endpoint_id: this.#ids.endpointId };
    const reopened = await test.database.transaction((tx) =>
      reopenDeliveries(tx, this.#ids.tenantId, [key], { actor: 'test', jobId: null }),
    );
    const replayable = model.state !== 'open' && model.state !== 'succeeded';
    expect(reopened).toHaveLength(replayable ? 1 : 0);
    if (replayable) model.state = 'open';
  }

  #result(
    lease: { token: string; attempt: number },
    result: 'succeeded' | 'failed' | 'dead' | 'retry' | 'defer',
  ): FinishedAttempt {
    const attempt: RecordedAttempt = {
      startedAtMs: Date.now(),
      durationMs: 1,
      outcome: result === 'succeeded' ? 'success' : result === 'failed' ? 'rejected' : 'retryable',
      httpStatus: 200,
      errorCode: null,
      errorDetail: null,
      responseHeaders: { 'content-type': 'text/plain' },
      responseBody: Buffer.from('ok'),
    };
    const pending = result === 'retry' || result === 'defer';
    const next: NextState = pending
      ? { kind: 'pending', delayMs: 0, deferral: result === 'defer' }
      : { kind: 'ended', state: result, reason: null };
    return {
      ...this.#ids,
      leaseToken: lease.token,
      attemptNumber: lease.attempt,
      attempt: result === 'defer' ? null : attempt,
      next,
    };
  }

  /** The invariants, read from the tables. */
  async check(action: Action): Promise<void> {
    const { requests } = test.database;
    const { deliveryId, eventId, tenantId } = this.#ids;
    const context = JSON.stringify(action);
    const work = await requests.query('SELECT 1 FROM relayops.delivery_work WHERE delivery_id = $1', [
      deliveryId,
    ]);
    const facts = await requests.query<{ state: string }>(
      'SELECT state FROM relayops.deliveries WHERE tenant_id = $1 AND event_id = $2',
      [tenantId, eventId],
    );
    const attempts = await requests.query<{ attempt_number: number }>(
      'SELECT attempt_number FROM relayops.delivery_attempts WHERE event_id = $1 AND delivery_id = $2 ORDER BY attempt_number',
      [eventId, deliveryId],
    );
    expect(facts.rows[0]?.state, context).toBe(this.#model.state);
    expect(work.rowCount, context).toBe(this.#model.state === 'open' ? 1 : 0);
    const numbers = attempts.rows.map((row) => row.attempt_number);
    expect(numbers, context).toEqual(Array.from({ length: this.#model.recorded }, (_, i) => i + 1));
  }
}
