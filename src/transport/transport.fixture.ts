import { randomBytes } from 'node:crypto';
import { testDatabase } from '../../test/support/database.ts';
import { type Config, loadConfig } from '../config/index.ts';
import { MemoryCoordination } from '../coordination/memory/index.ts';
import type { Coordination } from '../coordination/port.ts';
import { EndpointDirectory, SecretBox } from '../endpoints/index.ts';
import { Acceptor } from '../events/index.ts';
import type { Database } from '../platform/db/database.ts';
import { systemClock } from '../shared/clock.ts';
import {
  type DeliveryId,
  type EndpointId,
  newId,
  type SubscriptionId,
  type TenantId,
} from '../shared/ids.ts';
import type { TransportHarness } from './conformance.ts';
import type { Transport } from './port.ts';

const CONCURRENCY = 8;

/** What one process of the installation under test is made of. */
export interface TransportSite {
  readonly database: Database;
  readonly config: Config;
  readonly coordination: Coordination;
  readonly directory: EndpointDirectory;
  readonly instance: string;
  readonly onError: (error: unknown) => never;
}

export interface TransportKind {
  readonly config: Partial<Config>;
  /** Whether acceptance writes outbox rows. */
  readonly hasMessages: boolean;
  readonly open: (site: TransportSite) => Promise<Transport>;
  /** What is left outside of the database. */
  readonly cleanUp?: (config: Config) => Promise<void>;
}

/** A tenant with two endpoints on a database of its own, for the conformance suite of any adapter. */
export async function transportHarness(kind: TransportKind): Promise<TransportHarness> {
  const test = await testDatabase();
  const { database } = test;
  const config = loadConfig(
    {},
    {
      'delivery.endpointConcurrency': CONCURRENCY,
      'delivery.sweepMs': 50,
      'delivery.pollMs': 50,
      ...kind.config,
    },
  );
  const coordination = new MemoryCoordination(systemClock);
  const secretBox = new SecretBox(randomBytes(32).toString('base64'));
  const onError = (error: unknown): never => {
    throw error;
  };
  const directory = new EndpointDirectory({ database, config, secretBox, onError });
  const acceptor = new Acceptor({
    database,
    directory,
    config,
    clock: systemClock,
    filters: { judge: () => Promise.reject(new Error('nothing here has filters')) },
    outbox: null,
    onWork: () => undefined,
  });
  const tenantId = newId<TenantId>(Date.now());
  const endpoints: [EndpointId, EndpointId] = [newId<EndpointId>(Date.now()), newId<EndpointId>(Date.now())];
  await database.requests.query('INSERT INTO relayops.tenants (tenant_id, name) VALUES ($1, $2)', [
    tenantId,
    'conformance',
  ]);
  for (const endpointId of endpoints) {
    await database.requests.query(
      "INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url) VALUES ($1, $2, 'http://127.0.0.1:9/')",
      [endpointId, tenantId],
    );
    await database.requests.query(
      'INSERT INTO relayops.endpoint_subscriptions (subscription_id, endpoint_id, tenant_id, pattern) VALUES ($1, $2, $3, $4)',
      [newId<SubscriptionId>(Date.now()), endpointId, tenantId, `to.e${endpoints.indexOf(endpointId)}`],
    );
  }
  let opened = 0;
  return {
    endpoints,
    concurrency: CONCURRENCY,
    coordination,
    open: () =>
      kind.open({ database, config, coordination, directory, instance: `worker-${opened++}`, onError }),
    accept: async (endpointId, count) => {
      const deliveries: DeliveryId[] = [];
      for (let i = 0; i < count; i++) {
        const result = await acceptor.accept({
          tenantId,
          type: `to.e${endpoints.indexOf(endpointId)}`,
          contentType: 'application/json',
          payload: Buffer.from(String(i)),
          idempotencyKey: null,
          format: 'native',
          attributes: null,
          traceparent: null,
          occurredAt: null,
        });
        if (!result.ok) throw result.error;
        const { rows } = await database.requests.query<{ delivery_id: DeliveryId }>(
          'SELECT delivery_id FROM relayops.deliveries WHERE tenant_id = $1 AND event_id = $2',
          [tenantId, result.accepted.eventId],
        );
        deliveries.push(rows[0]!.delivery_id);
      }
      return deliveries;
    },
    postpone: async (endpointId, ms) => {
      await database.requests.query(
        "UPDATE relayops.delivery_work SET due_at = now() + $2 * interval '1 ms' WHERE endpoint_id = $1",
        [endpointId, ms],
      );
    },
    setState: async (endpointId, state) => {
      await database.requests.query(
        'UPDATE relayops.webhook_endpoints SET state = $2, version = version + 1 WHERE endpoint_id = $1',
        [endpointId, state],
      );
      directory.forgetTarget(endpointId);
    },
    lease: async (endpointId, ms) => {
      await database.requests.query(
        `UPDATE relayops.delivery_work SET lease_token = nextval('relayops.lease_tokens'), lease_until = now() + $2 * interval '1 ms',
           leased_by = 'vanished', attempt_no = attempt_no + 1
         WHERE endpoint_id = $1`,
        [endpointId, ms],
      );
    },
    expireLeases: async () => {
      await database.requests.query(
        "UPDATE relayops.delivery_work SET lease_until = now() - interval '1 ms' WHERE lease_until IS NOT NULL",
      );
    },
    outcomes: async (deliveryId) => {
      const { rows } = await database.requests.query<{ outcome: string }>(
        'SELECT outcome FROM relayops.delivery_attempts WHERE delivery_id = $1 ORDER BY attempt_number',
        [deliveryId],
      );
      return rows.map((row) => row.outcome);
    },
    close: async () => {
      await acceptor.stop();
      await kind.cleanUp?.(config);
      await test.close();
    },
  };
}
