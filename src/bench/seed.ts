import { newId, type EndpointId } from '../shared/ids.ts';
import type { BenchSystem } from './bench-system.ts';

export interface BenchEndpoint {
  readonly endpointId: EndpointId;
  readonly type: string;
}

/** Makes endpoints `e0`, `e1`, … on the receiver, each subscribed to the type `bench.<name>`, directly in the database. */
export async function seedEndpoints(
  system: BenchSystem,
  count: number,
  options: {
    readonly query?: string;
    readonly url?: string;
    readonly prefix?: string;
    readonly timeoutMs?: number;
  } = {},
): Promise<BenchEndpoint[]> {
  const { database, secretBox } = system.runtime;
  const endpoints: BenchEndpoint[] = [];
  for (let i = 0; i < count; i++) {
    const endpointId = newId<EndpointId>(Date.now());
    const name = `${options.prefix ?? 'e'}${i}`;
    const url = `${options.url ?? system.receiverUrl}/r/${name}${options.query ?? ''}`;
    await database.requests.query(
      'INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url, timeout_ms) VALUES ($1, $2, $3, $4)',
      [endpointId, system.tenantId, url, options.timeoutMs ?? null],
    );
    await database.requests.query(
      'INSERT INTO relayops.endpoint_secrets (secret_id, endpoint_id, ciphertext) VALUES ($1, $2, $3)',
      [newId(Date.now()), endpointId, secretBox.seal(Buffer.alloc(32, 3), endpointId)],
    );
    await database.requests.query(
      'INSERT INTO relayops.endpoint_subscriptions (subscription_id, endpoint_id, tenant_id, pattern) VALUES ($1, $2, $3, $4)',
      [newId(Date.now()), endpointId, system.tenantId, `bench.${name}`],
    );
    endpoints.push({ endpointId, type: `bench.${name}` });
  }
  await database.requests.query(
    'INSERT INTO relayops.routing_versions AS v (tenant_id) VALUES ($1) ON CONFLICT (tenant_id) DO UPDATE SET version = v.version + 1',
    [system.tenantId],
  );
  return endpoints;
}

/** `n` UUIDv7 at the given millisecond, in SQL; `salt` keeps kinds apart. */
const uuidAt = (ms: string, salt: string): string =>
  `(lpad(to_hex(${ms}), 12, '0') || '7' || substr(md5(i::text || '${salt}'), 1, 3) || '8' || substr(md5('${salt}' || i::text), 1, 15))::uuid`;

/**
 * Pending deliveries, one event each, evenly over the endpoints, made inside the database: a million in seconds. Due times rise by a
 * microsecond, as those of real acceptance do.
 */
export async function seedPending(
  system: BenchSystem,
  endpoints: readonly BenchEndpoint[],
  count: number,
  payloadBytes: number,
): Promise<void> {
  const { database } = system.runtime;
  await database.transaction(async (tx) => {
    await tx.query({ text: 'SET LOCAL statement_timeout = 0' });
    await tx.query({
      text: `CREATE TEMP TABLE seed ON COMMIT DROP AS
        SELECT ${uuidAt('ms', 'e')} AS event_id, ${uuidAt('ms', 'd')} AS delivery_id, ($1::uuid[])[1 + i % $2::int] AS endpoint_id,
               ($3::text[])[1 + i % $2::int] AS type, i
        FROM (SELECT i, floor(extract(epoch FROM clock_timestamp()) * 1000)::bigint AS ms FROM generate_series(1, $4::int) AS i) g`,
      values: [endpoints.map((e) => e.endpointId), endpoints.length, endpoints.map((e) => e.type), count],
    });
    const payload = JSON.stringify({ data: 'x'.repeat(Math.max(0, payloadBytes - 11)) });
    await tx.query({
      text: `INSERT INTO relayops.events (tenant_id, event_id, type, content_type, payload, format, delivery_count)
             SELECT $1, event_id, type, 'application/json', $2, 'native', 1 FROM seed ORDER BY event_id`,
      values: [system.tenantId, Buffer.from(payload)],
    });
    await tx.query({
      text: `INSERT INTO relayops.deliveries (tenant_id, event_id, endpoint_id, delivery_id, event_type)
             SELECT $1, event_id, endpoint_id, delivery_id, type FROM seed ORDER BY event_id`,
      values: [system.tenantId],
    });
    await tx.query({
      text: `INSERT INTO relayops.delivery_work (delivery_id, event_id, tenant_id, endpoint_id, due_at)
             SELECT delivery_id, event_id, $1, endpoint_id, now() - interval '1 s' + i * interval '1 us' FROM seed ORDER BY i`,
      values: [system.tenantId],
    });
    if (system.runtime.messaging !== null)
      await tx.query({
        text: `INSERT INTO relayops.outbox_messages (outbox_id, delivery_id, endpoint_id)
               SELECT delivery_id, delivery_id, endpoint_id FROM seed ORDER BY i`,
      });
  });
  await settle(system);
}

/** Finished deliveries with their attempts, spread over the last three weeks. */
export async function seedFinished(
  system: BenchSystem,
  endpoints: readonly BenchEndpoint[],
  count: number,
  onProgress: (done: number) => void,
): Promise<void> {
  const { database } = system.runtime;
  await database.requests.query("SELECT relayops.ensure_partitions(now() - interval '21 days', now())");
  const CHUNK = 250_000;
  for (let done = 0; done < count; done += CHUNK) {
    await database.transaction(async (tx) => {
      await tx.query({ text: 'SET LOCAL statement_timeout = 0' });
      await tx.query({ text: 'SET LOCAL synchronous_commit = off' });
      await tx.query({
        text: `CREATE TEMP TABLE seed ON COMMIT DROP AS
          SELECT ${uuidAt('ms', 'f')} AS event_id, ${uuidAt('ms', 'g')} AS delivery_id, ($1::uuid[])[1 + i % $2::int] AS endpoint_id,
                 ($3::text[])[1 + i % $2::int] AS type
          FROM (SELECT i, floor((extract(epoch FROM now()) - 21 * 86400.0 * ($6::int - i) / $6::int) * 1000)::bigint AS ms
                FROM generate_series($4::int + 1, $5::int) AS i) g`,
        values: [
          endpoints.map((e) => e.endpointId),
          endpoints.length,
          endpoints.map((e) => e.type),
          done,
          Math.min(count, done + CHUNK),
          count,
        ],
      });
      await tx.query({
        text: `INSERT INTO relayops.events (tenant_id, event_id, type, content_type, payload, format, delivery_count)
               SELECT $1, event_id, type, 'application/json', '{}', 'native', 1 FROM seed`,
        values: [system.tenantId],
      });
      await tx.query({
        text: `INSERT INTO relayops.deliveries (tenant_id, event_id, endpoint_id, delivery_id, event_type, state, finished_at)
               SELECT $1, event_id, endpoint_id, delivery_id, type, 'succeeded', now() FROM seed`,
        values: [system.tenantId],
      });
      await tx.query({
        text: `INSERT INTO relayops.delivery_attempts (event_id, delivery_id, attempt_number, tenant_id, endpoint_id, started_at, duration_ms,
                 outcome, http_status, worker)
               SELECT event_id, delivery_id, 1, $1, endpoint_id, now(), 5, 'success', 200, 'seed' FROM seed`,
        values: [system.tenantId],
      });
    });
    onProgress(Math.min(count, done + CHUNK));
  }
  await settle(system);
}

/** What autovacuum would have done by the time such data is real, and a checkpoint, so that the run does not pay for the seeding. */
async function settle(system: BenchSystem): Promise<void> {
  // A connection of its own: the pools end statements that run as long as this.
  const client = system.runtime.database.dedicatedClient();
  await client.connect();
  try {
    await client.query('SET statement_timeout = 0');
    for (const table of ['events', 'deliveries', 'delivery_attempts', 'delivery_work', 'outbox_messages'])
      await client.query(`VACUUM ANALYZE relayops.${table}`);
    await client.query('CHECKPOINT');
  } finally {
    await client.end();
  }
}
