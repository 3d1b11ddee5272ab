/**
 * Every configuration key, once: name, type, default, unit, secrecy and meaning. docs/configuration.md and .env.example are
 * generated from this table; `config print` shows it with the values in force.
 */
export type KeyType = 'string' | 'integer' | 'number' | 'boolean' | 'list' | 'enum';

export interface KeySpec {
  readonly type: KeyType;
  readonly default: string | number | boolean | readonly string[] | null;
  readonly text: string;
  readonly unit?: 'ms' | 's' | 'bytes' | 'rows' | 'per second' | 'days' | 'connections';
  readonly secret?: true;
  readonly min?: number;
  readonly max?: number;
  readonly values?: readonly string[];
  /** What a text must look like, and the same in words. */
  readonly pattern?: { readonly form: RegExp; readonly text: string };
}

const DAY_S = 86_400;

export const keys = {
  // Process ----------------------------------------------------------------------------------------------------------
  role: {
    type: 'enum',
    values: ['all', 'api', 'worker'],
    default: 'all',
    text: 'What this process does: `api` (HTTP API), `worker` (delivery and janitor), or `all`.',
  },
  instance: {
    type: 'string',
    default: '',
    pattern: { form: /^[\w.:-]{0,200}$/, text: 'at most 200 letters, digits and _ . : -' },
    text: 'Name of this process in leases, attempts and logs. Empty: host name, process ID and a random part.',
  },
  'shutdown.timeoutMs': {
    type: 'integer',
    default: 20_000,
    unit: 'ms',
    min: 0,
    text: 'How long a graceful stop waits for work in flight before it aborts it.',
  },
  'log.level': {
    type: 'enum',
    values: ['trace', 'debug', 'info', 'warn', 'error', 'fatal', 'silent'],
    default: 'info',
    text: 'Least severe log line that is written.',
  },

  // HTTP API ---------------------------------------------------------------------------------------------------------
  'http.host': { type: 'string', default: '127.0.0.1', text: 'Address the API listens on.' },
  'http.port': {
    type: 'integer',
    default: 8080,
    min: 0,
    max: 65_535,
    text: 'Port the API listens on; 0 takes a free one.',
  },
  'http.adminHost': {
    type: 'string',
    default: '127.0.0.1',
    text: 'Address that probes and metrics listen on.',
  },
  'http.adminPort': {
    type: 'integer',
    default: 8090,
    min: 0,
    max: 65_535,
    text: 'Port of /livez, /readyz and /metrics, in every role; 0 takes a free one. No public proxy should reach it.',
  },
  'http.maxBodyBytes': {
    type: 'integer',
    default: 65_536,
    min: 1_024,
    max: 16_777_216,
    unit: 'bytes',
    text: 'Largest request body of the API; routes that send events have ingest.maxRequestBytes, those without a credential 8 KiB.',
  },
  'http.maxConnections': {
    type: 'integer',
    default: 2_000,
    min: 1,
    unit: 'connections',
    text: 'Open client connections at most; further ones are closed at once.',
  },
  'http.maxConnectionsPerAddress': {
    type: 'integer',
    default: 500,
    min: 1,
    unit: 'connections',
    text: 'Open connections of one client address at most (IPv6: of one /64); further ones are closed at once.',
  },
  'http.headersTimeoutMs': {
    type: 'integer',
    default: 10_000,
    min: 100,
    unit: 'ms',
    text: 'Time within which a client must have sent the headers of a request, from its first byte; on a new connection from its start. Checked every 0.5 s; answered with 408.',
  },
  'http.requestTimeoutMs': {
    type: 'integer',
    default: 30_000,
    min: 100,
    unit: 'ms',
    text: 'Time within which a client must have sent its whole request, from its first byte. Checked every 0.5 s; answered with 408.',
  },
  'http.keepAliveTimeoutMs': {
    type: 'integer',
    default: 72_000,
    min: 0,
    unit: 'ms',
    text: 'How long a connection stays open without a request; a proxy should close its own before that.',
  },
  'http.writeTimeoutMs': {
    type: 'integer',
    default: 15_000,
    min: 100,
    unit: 'ms',
    text: 'Time within which a client must take at least some bytes of an answer that waits for it; after it the connection is cut, 1 s later at most.',
  },
  'http.trustedProxies': {
    type: 'list',
    default: [],
    text: 'Addresses and networks (CIDR) of the proxies in front of the API, comma-separated. Only from them `X-Forwarded-For` counts: the client is its right-most address that is none of these. Empty: the peer is the client.',
  },

  // Database ---------------------------------------------------------------------------------------------------------
  'database.url': {
    type: 'string',
    default: '',
    secret: true,
    text: 'PostgreSQL 14 or newer, as `postgres://user:password@host:port/database`. Empty: the embedded server.',
  },
  'database.poolSize': {
    type: 'integer',
    default: 10,
    min: 1,
    max: 500,
    unit: 'connections',
    text: 'Connections for requests (queries, configuration).',
  },
  'database.acceptancePoolSize': {
    type: 'integer',
    default: 3,
    min: 2,
    max: 100,
    unit: 'connections',
    text: 'Connections for group commits; one of light events and one of heavy ones are in flight at a time.',
  },
  'database.deliveryPoolSize': {
    type: 'integer',
    default: 6,
    min: 3,
    max: 100,
    unit: 'connections',
    text: 'Connections for claims and results.',
  },
  'database.connectTimeoutMs': {
    type: 'integer',
    default: 5_000,
    min: 100,
    unit: 'ms',
    text: 'Wait for a connection before a request fails with 503.',
  },
  'database.statementTimeoutMs': {
    type: 'integer',
    default: 15_000,
    min: 100,
    unit: 'ms',
    text: 'Longest statement on the request pool.',
  },
  'database.dataDir': {
    type: 'string',
    default: '',
    text: 'Data folder of the embedded server. Empty: `.relayops/postgres` in the checkout, or `/var/lib/relayops` when run as root.',
  },

  // Transport and coordination -----------------------------------------------------------------------------------------
  transport: {
    type: 'enum',
    values: ['postgres', 'rabbitmq'],
    default: 'postgres',
    text: 'How due deliveries reach workers: from the database alone, or through RabbitMQ. The same in every process; changing it takes a restart and loses nothing.',
  },
  coordination: {
    type: 'enum',
    values: ['memory', 'redis'],
    default: 'memory',
    text: 'Where rate limits and concurrency slots are kept: in each process for itself, or in Redis for all processes together.',
  },
  'rabbitmq.url': {
    type: 'string',
    default: '',
    secret: true,
    text: 'RabbitMQ 3.10 or newer, as `amqp://user:password@host:port/vhost` or `amqps://…`.',
  },
  'rabbitmq.prefix': {
    type: 'string',
    default: 'relayops',
    pattern: { form: /^[\w.-]{1,100}$/, text: '1 to 100 letters, digits and _ . -' },
    text: 'First part of the names of all queues, so that several installations can share a broker.',
  },
  'rabbitmq.prefetch': {
    type: 'integer',
    default: 512,
    min: 1,
    max: 65_535,
    unit: 'rows',
    text: 'Messages that one worker process may hold without having acknowledged them. A message names one to 64 deliveries, so fewer than `delivery.concurrency` may keep a worker from using all of it.',
  },
  'rabbitmq.heartbeatS': {
    type: 'integer',
    default: 10,
    min: 1,
    max: 300,
    unit: 's',
    text: 'A connection that is silent for about twice this time is given up and made anew.',
  },
  'rabbitmq.confirmTimeoutMs': {
    type: 'integer',
    default: 10_000,
    min: 100,
    unit: 'ms',
    text: 'How long a publisher waits for the confirms of a batch before it makes its connection anew and leaves the rows for a later try.',
  },
  'rabbitmq.handOver': {
    type: 'boolean',
    default: true,
    text: 'Whether a process that accepts and delivers claims what it accepted itself, without the way through the broker, while it has room and no message waits for it.',
  },
  'rabbitmq.overdueMs': {
    type: 'integer',
    default: 5_000,
    min: 100,
    unit: 'ms',
    text: 'How much later than its message should have come a due delivery is taken from the database without one.',
  },
  'rabbitmq.deadMaxMessages': {
    type: 'integer',
    default: 1_000_000,
    min: 1,
    unit: 'rows',
    text: 'Messages that the dead-letter queue for operators keeps; the oldest leave first. Fixed when the queue is first declared.',
  },
  'outbox.batch': {
    type: 'integer',
    default: 500,
    min: 1,
    max: 10_000,
    unit: 'rows',
    text: 'Outbox rows that a publisher claims, publishes and removes at a time.',
  },
  'outbox.claimMs': {
    type: 'integer',
    default: 30_000,
    min: 200,
    unit: 'ms',
    text: 'How long a publisher may hold outbox rows before another takes them. Longer than `rabbitmq.confirmTimeoutMs`.',
  },
  'outbox.pollMs': {
    type: 'integer',
    default: 1_000,
    min: 10,
    unit: 'ms',
    text: 'Longest pause of a publisher between two looks for rows that other processes wrote.',
  },
  'redis.url': {
    type: 'string',
    default: '',
    secret: true,
    text: 'Redis 6.2 or newer, as `redis://user:password@host:port/database` or `rediss://…`. With `redis.cluster`: any node.',
  },
  'redis.cluster': {
    type: 'boolean',
    default: false,
    text: 'Whether `redis.url` names a node of a Redis Cluster.',
  },
  'redis.prefix': {
    type: 'string',
    default: 'relayops',
    pattern: { form: /^[\w.-]{1,100}$/, text: '1 to 100 letters, digits and _ . -' },
    text: 'First part of all keys, so that several installations can share a server.',
  },
  'redis.timeoutMs': {
    type: 'integer',
    default: 500,
    min: 10,
    unit: 'ms',
    text: 'Longest wait for an answer of Redis; after it this process goes on under local limits until Redis answers again.',
  },

  // Identity ---------------------------------------------------------------------------------------------------------
  'auth.jwtSecret': {
    type: 'string',
    default: '',
    secret: true,
    text: 'Signs access tokens (HS256); 32 characters at least. Comes only from the environment.',
  },
  'auth.accessTokenTtlS': {
    type: 'integer',
    default: 900,
    min: 30,
    max: DAY_S,
    unit: 's',
    text: 'Life of an access token.',
  },
  'auth.refreshTokenTtlS': {
    type: 'integer',
    default: 30 * DAY_S,
    min: 60,
    unit: 's',
    text: 'Life of a refresh token.',
  },
  'auth.passwordResetTtlS': {
    type: 'integer',
    default: 3_600,
    min: 60,
    max: DAY_S,
    unit: 's',
    text: 'Life of a password reset token.',
  },
  'auth.keyCacheMs': {
    type: 'integer',
    default: 2_000,
    min: 0,
    max: 10_000,
    unit: 'ms',
    text: 'How long a checked API key or user is trusted before it is read again: the longest time that a revoked key or an ended session still works in other processes.',
  },
  'auth.keyRotationOverlapS': {
    type: 'integer',
    default: DAY_S,
    min: 0,
    unit: 's',
    text: 'How long an old API key works after its rotation, when the request does not say.',
  },
  'secrets.key': {
    type: 'string',
    default: '',
    secret: true,
    text: 'Seals signing secrets and header values of endpoints at rest (AES-256-GCM): 32 bytes in base64. The same in every process; another key does not start.',
  },
  'secrets.previousKeys': {
    type: 'list',
    default: [],
    secret: true,
    text: 'Keys that open what is sealed, and seal nothing: for a rotation of secrets.key, until `relayops secrets reseal` is done.',
  },

  // Taking events in -------------------------------------------------------------------------------------------------
  'ingest.maxPayloadBytes': {
    type: 'integer',
    default: 1_048_576,
    min: 1,
    max: 67_108_864,
    unit: 'bytes',
    text: 'Largest payload of one event.',
  },
  'ingest.maxRequestBytes': {
    type: 'integer',
    default: 8_388_608,
    min: 1024,
    unit: 'bytes',
    text: 'Largest body of a request that sends events, as sent and after decompression; it bounds a batch.',
  },
  'ingest.bodyMemoryBytes': {
    type: 'integer',
    default: 268_435_456,
    min: 1_048_576,
    unit: 'bytes',
    text: 'Bytes of request bodies that this process holds at most while they arrive and until they are answered; one tenant holds half of it at most. Over it requests get 503.',
  },
  'ingest.maxBatchEvents': {
    type: 'integer',
    default: 1_000,
    min: 1,
    max: 10_000,
    unit: 'rows',
    text: 'Events in one batch request at most.',
  },
  'ingest.groupMaxEvents': {
    type: 'integer',
    default: 500,
    min: 1,
    max: 5_000,
    unit: 'rows',
    text: 'Events written by one group commit at most.',
  },
  'ingest.groupMaxBytes': {
    type: 'integer',
    default: 8_388_608,
    min: 65_536,
    unit: 'bytes',
    text: 'Payload bytes written by one group commit at most.',
  },
  'ingest.groupMaxDeliveries': {
    type: 'integer',
    default: 1_000,
    min: 10,
    max: 20_000,
    unit: 'rows',
    text: 'Deliveries made by one group commit at most; an event that makes more has a group of its own, and light events do not wait for it.',
  },
  'ingest.queueMaxEvents': {
    type: 'integer',
    default: 20_000,
    min: 2,
    unit: 'rows',
    text: 'Events waiting in this process for their group commit; one tenant may have half. Over it requests get 503.',
  },
  'ingest.queueMaxBytes': {
    type: 'integer',
    default: 134_217_728,
    min: 1_048_576,
    unit: 'bytes',
    text: 'Payload bytes waiting in this process for their group commit; one tenant may have half. Over it requests get 503.',
  },
  'ingest.queueMaxDeliveries': {
    type: 'integer',
    default: 1_000_000,
    min: 2,
    unit: 'rows',
    text: 'Deliveries that the events waiting in this process will make; one tenant may have half. Over it requests get 503.',
  },
  'ingest.ratePerSecond': {
    type: 'integer',
    default: 50_000,
    min: 1,
    unit: 'per second',
    text: 'Events a tenant may send per second, when the tenant has no limit of its own. An event with more than one delivery counts as many as it has.',
  },
  'ingest.rateBurst': {
    type: 'integer',
    default: 100_000,
    min: 1,
    unit: 'rows',
    text: 'Events a tenant may send at once, when the tenant has no limit of its own.',
  },
  'ingest.idempotencyTtlS': {
    type: 'integer',
    default: 90 * DAY_S,
    min: 60,
    unit: 's',
    text: 'How long an idempotency key finds its original.',
  },
  'ingest.backlogHigh': {
    type: 'integer',
    default: 5_000_000,
    min: 1,
    unit: 'rows',
    text: 'Open deliveries at which new events get 503.',
  },
  'ingest.backlogLow': {
    type: 'integer',
    default: 4_500_000,
    min: 0,
    unit: 'rows',
    text: 'Open deliveries below which new events are taken again.',
  },
  'ingest.backlogSampleMs': {
    type: 'integer',
    default: 2_000,
    min: 50,
    unit: 'ms',
    text: 'How often the backlog is estimated.',
  },

  'ingest.outboxHigh': {
    type: 'integer',
    default: 500_000,
    min: 1,
    unit: 'rows',
    text: 'Outbox rows waiting for a publisher at which new events get 503 (RabbitMQ).',
  },
  'ingest.outboxLow': {
    type: 'integer',
    default: 250_000,
    min: 0,
    unit: 'rows',
    text: 'Outbox rows below which new events are taken again.',
  },
  'ingest.readyHigh': {
    type: 'integer',
    default: 2_000_000,
    min: 1,
    unit: 'rows',
    text: 'Messages in the ready queue at which new events get 503 (RabbitMQ).',
  },
  'ingest.readyLow': {
    type: 'integer',
    default: 1_500_000,
    min: 0,
    unit: 'rows',
    text: 'Messages in the ready queue below which new events are taken again.',
  },
  'ingest.tenantShare': {
    type: 'number',
    default: 0.5,
    min: 0.001,
    max: 1,
    text: 'Share of `ingest.backlogHigh` that the open deliveries of one tenant may take before its events (and only its) get 503.',
  },

  // Filters ----------------------------------------------------------------------------------------------------------
  'filters.threads': {
    type: 'integer',
    default: 2,
    min: 1,
    max: 32,
    text: 'Worker threads for filters that are not cheap on every payload; started when first needed. One tenant uses all but one of them at a time.',
  },
  'filters.deadlineMs': {
    type: 'integer',
    default: 100,
    min: 1,
    max: 5_000,
    unit: 'ms',
    text: 'What the filters of one event may take in a thread, over all subscriptions; the rest cannot be evaluated then.',
  },
  'filters.tenantMsPerSecond': {
    type: 'integer',
    default: 250,
    min: 1,
    unit: 'ms',
    text: "Time of the threads that one tenant's filters may take in a second, saved up for 4 s at most.",
  },
  'filters.maxWaitMs': {
    type: 'integer',
    default: 2_000,
    min: 10,
    max: 20_000,
    unit: 'ms',
    text: 'How long an event waits for a thread and for time of its tenant, before its filters cannot be evaluated.',
  },

  // Endpoint health --------------------------------------------------------------------------------------------------
  'health.failuresToOpen': {
    type: 'integer',
    default: 10,
    min: 2,
    max: 10_000,
    text: 'Failed attempts in a row, over all processes, after which the deliveries of an endpoint are held back.',
  },
  'health.minFailingMs': {
    type: 'integer',
    default: 3_000,
    min: 0,
    unit: 'ms',
    text: 'Least time between the first of those failures and holding back, so that a success in another process is heard of.',
  },
  'health.openMs': {
    type: 'integer',
    default: 5_000,
    min: 10,
    unit: 'ms',
    text: 'Pause before the first probe of a failing endpoint; doubled with each probe that fails.',
  },
  'health.openCapMs': {
    type: 'integer',
    default: 300_000,
    min: 10,
    unit: 'ms',
    text: 'Longest pause between two probes of a failing endpoint.',
  },
  'health.disableAfterS': {
    type: 'integer',
    default: 5 * DAY_S,
    min: 1,
    unit: 's',
    text: 'Time of nothing but failures after which an endpoint is disabled and its tenant is told.',
  },

  // Delivery ---------------------------------------------------------------------------------------------------------
  'delivery.concurrency': {
    type: 'integer',
    default: 512,
    min: 1,
    max: 10_000,
    unit: 'connections',
    text: 'Requests in flight in one worker process.',
  },
  'delivery.endpointConcurrency': {
    type: 'integer',
    default: 16,
    min: 1,
    max: 1_000,
    unit: 'connections',
    text: 'Requests in flight to one endpoint, when the endpoint does not say.',
  },
  'delivery.endpointRatePerSecond': {
    type: 'number',
    default: null,
    min: 0.01,
    unit: 'per second',
    text: 'Requests per second to one endpoint, when the endpoint does not say; empty means no limit.',
  },
  'delivery.claimBatch': {
    type: 'integer',
    default: 128,
    min: 1,
    max: 5_000,
    unit: 'rows',
    text: 'Deliveries taken by one claim at most.',
  },
  'delivery.finishBatch': {
    type: 'integer',
    default: 256,
    min: 1,
    max: 5_000,
    unit: 'rows',
    text: 'Results written by one statement at most.',
  },
  'delivery.timeoutMs': {
    type: 'integer',
    default: 15_000,
    min: 10,
    max: 600_000,
    unit: 'ms',
    text: 'Deadline of one attempt (connect, headers and body together), when the endpoint does not say.',
  },
  'delivery.connectTimeoutMs': {
    type: 'integer',
    default: 5_000,
    min: 10,
    unit: 'ms',
    text: 'Deadline of the connection alone (TCP and TLS), from the end of the look-up of the name on.',
  },
  'delivery.dnsTimeoutMs': {
    type: 'integer',
    default: 5_000,
    min: 10,
    max: 60_000,
    unit: 'ms',
    text: 'Deadline of one look-up of a host name, over all retries, servers and search domains.',
  },
  'delivery.dnsServers': {
    type: 'list',
    default: [],
    text: 'Name servers for the host names of endpoints: `ip`, `ip:port` or `[ipv6]:port`. Empty: those of `/etc/resolv.conf`.',
  },
  'delivery.dnsLookups': {
    type: 'integer',
    default: 256,
    min: 2,
    max: 10_000,
    text: 'Look-ups of host names at a time in one worker process. Tenants share them: one alone may use half, n tenants an (n + 1)th each.',
  },
  'delivery.dnsCacheNames': {
    type: 'integer',
    default: 10_000,
    min: 2,
    max: 1_000_000,
    text: 'Host names whose addresses, or failed look-ups, one worker process remembers; one tenant may fill half. An answer is kept for its time to live, at least 1 s and at most 60 s; a failure for 3 s.',
  },
  'delivery.leaseMs': {
    type: 'integer',
    default: 60_000,
    min: 100,
    unit: 'ms',
    text: 'How long a worker may hold a delivery before another may take it. Longer than the longest attempt plus `delivery.leaseMarginMs`.',
  },
  'delivery.leaseMarginMs': {
    type: 'integer',
    default: 5_000,
    min: 0,
    unit: 'ms',
    text: 'Time kept free between the end of the longest attempt and the end of its lease.',
  },
  'delivery.maxTimeoutMs': {
    type: 'integer',
    default: 30_000,
    min: 10,
    unit: 'ms',
    text: 'Longest deadline that an endpoint may ask for.',
  },
  'delivery.pollMs': {
    type: 'integer',
    default: 1_000,
    min: 10,
    unit: 'ms',
    text: 'Longest pause of an idle worker between two looks at what is due.',
  },
  'delivery.sweepMs': {
    type: 'integer',
    default: 2_000,
    min: 50,
    unit: 'ms',
    text: 'Least time between two sweeps, which find work that no wake-up told of: late commits, expired leases, other processes.',
  },
  'delivery.maxAttempts': {
    type: 'integer',
    default: 12,
    min: 1,
    max: 100,
    text: 'Attempts before a delivery is dead, when the endpoint does not say.',
  },
  'delivery.backoffBaseMs': {
    type: 'integer',
    default: 5_000,
    min: 1,
    unit: 'ms',
    text: 'Upper bound of the first pause between attempts.',
  },
  'delivery.backoffFactor': {
    type: 'number',
    default: 3,
    min: 1,
    max: 100,
    text: 'Growth of that bound with each attempt.',
  },
  'delivery.backoffCapMs': {
    type: 'integer',
    default: 6 * 3_600_000,
    min: 1,
    unit: 'ms',
    text: 'Longest pause between attempts.',
  },
  'delivery.retryAfterCapMs': {
    type: 'integer',
    default: 3_600_000,
    min: 0,
    unit: 'ms',
    text: 'Longest `Retry-After` that is honoured.',
  },
  'delivery.deferMs': {
    type: 'integer',
    default: 1_000,
    min: 10,
    unit: 'ms',
    text: 'Pause of a claimed delivery that was refused a permit or a look-up of its host name; it is no attempt.',
  },
  'delivery.maxResponseBytes': {
    type: 'integer',
    default: 65_536,
    min: 0,
    max: 16_777_216,
    unit: 'bytes',
    text: 'Response body that is read (after decompression); the rest is cut off.',
  },
  'delivery.keepResponseBytes': {
    type: 'integer',
    default: 1_024,
    min: 0,
    max: 65_536,
    unit: 'bytes',
    text: 'Response body that is kept with the attempt.',
  },
  'delivery.socketsPerOrigin': {
    type: 'integer',
    default: 512,
    min: 1,
    max: 10_000,
    unit: 'connections',
    text: 'Open sockets to one origin in one worker process. Endpoints of different tenants on one origin share them, so fewer than `delivery.concurrency` (which bounds all together) lets a slow endpoint hold up its neighbours. Idle ones close after 4 s.',
  },
  'delivery.maxPayloadMemoryBytes': {
    type: 'integer',
    default: 134_217_728,
    min: 1_048_576,
    unit: 'bytes',
    text: 'Payload bytes that deliveries in flight may hold in one worker process.',
  },
  'delivery.http2': {
    type: 'boolean',
    default: true,
    text: 'Use HTTP/2 where the receiver offers it (TLS with ALPN).',
  },
  'delivery.allowAddresses': {
    type: 'list',
    default: [],
    text: 'Addresses that the guard would refuse but this installation allows: CIDR, or CIDR and port (`127.0.0.1/32:9000`). For development and private networks.',
  },
  'delivery.secretOverlapS': {
    type: 'integer',
    default: DAY_S,
    min: 0,
    unit: 's',
    text: 'How long an old signing secret signs beside the new one after a rotation, when the request does not say.',
  },

  // Replay, retention ------------------------------------------------------------------------------------------------
  'replay.batch': {
    type: 'integer',
    default: 500,
    min: 1,
    max: 10_000,
    unit: 'rows',
    text: 'Deliveries that one step of a replay job reopens.',
  },
  'retention.days': {
    type: 'number',
    default: 30,
    min: 0.001,
    unit: 'days',
    text: 'Age at which finished events, deliveries and attempts are removed; open ones stay.',
  },
  'retention.batch': {
    type: 'integer',
    default: 2_000,
    min: 1,
    max: 50_000,
    unit: 'rows',
    text: 'Rows that one step of the janitor removes.',
  },
  'janitor.intervalMs': {
    type: 'integer',
    default: 60_000,
    min: 50,
    unit: 'ms',
    text: 'Pause between two rounds of the janitor.',
  },

  // Command line --------------------------------------------------------------------------------------------------------
  'client.url': {
    type: 'string',
    default: 'http://127.0.0.1:8080',
    text: 'API that the commands `send`, `listen`, `tail` and `replay` talk to.',
  },
  'client.apiKey': {
    type: 'string',
    default: '',
    secret: true,
    text: 'API key of those commands. Empty: the demo key that `start` keeps beside the embedded data.',
  },

  'client.listenPort': {
    type: 'integer',
    default: 8082,
    min: 0,
    max: 65_535,
    text: 'Loopback port of `listen`; `start` and `dev` allow deliveries to it beside the simulator.',
  },

  // Simulator --------------------------------------------------------------------------------------------------------
  'simulator.port': {
    type: 'integer',
    default: 8081,
    min: 0,
    max: 65_535,
    text: 'Loopback port of the receiver simulator that `start` and `dev` bring up; 0 takes a free one.',
  },
} as const satisfies Record<string, KeySpec>;

export type KeyName = keyof typeof keys;

type ValueOf<S extends KeySpec> = S['type'] extends 'integer' | 'number'
  ? S['default'] extends null
    ? number | null
    : number
  : S['type'] extends 'boolean'
    ? boolean
    : S['type'] extends 'list'
      ? readonly string[]
      : S extends { values: readonly (infer V)[] }
        ? V
        : string;

/** The configuration in force: one value for each key. */
export type Config = { readonly [K in KeyName]: ValueOf<(typeof keys)[K]> };

/** `http.maxConnections` → `RELAYOPS_HTTP_MAX_CONNECTIONS`. */
export function environmentName(key: string): string {
  return (
    'RELAYOPS_' +
    key
      .replaceAll('.', '_')
      .replace(/([a-z0-9])([A-Z])/g, '$1_$2')
      .toUpperCase()
  );
}
