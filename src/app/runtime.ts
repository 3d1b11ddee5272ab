import { randomBytes } from 'node:crypto';
import os from 'node:os';
import type { Config } from '../config/index.ts';
import type { Coordination } from '../coordination/port.ts';
import type { RedisCoordination } from '../coordination/redis/index.ts';
import { DeliveryWorker, Janitor, ReplayRunner } from '../delivery/index.ts';
import { EndpointDirectory, type SecretBox } from '../endpoints/index.ts';
import { Acceptor, Admission, OperationalEvents } from '../events/index.ts';
import { Database } from '../platform/db/database.ts';
import { NameResolver } from '../platform/dns/resolver.ts';
import { parseAllowList } from '../platform/http/address-guard.ts';
import { FilterPool } from '../platform/expressions/index.ts';
import { HttpSender } from '../platform/http/sender.ts';
import { Lifecycle } from '../platform/lifecycle/lifecycle.ts';
import type { Logger } from '../platform/telemetry/logger.ts';
import { createMetrics, type Metrics } from '../platform/telemetry/metrics.ts';
import { type Clock, systemClock } from '../shared/clock.ts';
import type { DueDelivery, DueWork, Transport } from '../transport/port.ts';
import { createCoordination } from './coordination.ts';
import { observeAdmission, readyMessages } from './observe-admission.ts';
import { observeAttempt } from './observe-attempt.ts';
import { allDeletedEndpoints, retentionTasks, sealingTask } from './retention.ts';
import { secretBoxOf } from './sealing-keys.ts';
import { createTransport, type Messaging } from './transport.ts';

/** The parts of one process, wired. Roles start some of them. */
export interface Runtime {
  readonly config: Config;
  readonly instance: string;
  readonly clock: Clock;
  readonly logger: Logger;
  readonly metrics: Metrics;
  readonly database: Database;
  readonly directory: EndpointDirectory;
  readonly secretBox: SecretBox;
  readonly coordination: Coordination;
  /** Present with coordination through Redis. */
  readonly redis: RedisCoordination | null;
  readonly transport: Transport;
  /** Present with the RabbitMQ transport. */
  readonly messaging: Messaging | null;
  readonly names: NameResolver;
  readonly acceptor: Acceptor;
  readonly admission: Admission;
  readonly worker: DeliveryWorker;
  readonly replays: ReplayRunner;
  readonly janitor: Janitor;
  readonly operationalEvents: OperationalEvents;
  readonly lifecycle: Lifecycle;
}

/** Builds everything and starts nothing. The database must be migrated. */
export function createRuntime(config: Config, logger: Logger): Runtime {
  const clock = systemClock;
  const instance = config.instance || `${os.hostname()}-${process.pid}-${randomBytes(3).toString('hex')}`;
  const metrics = createMetrics();
  const report = (error: unknown, part: string): void => {
    metrics.errors.inc({ part });
    logger.error({ err: error, part }, 'background error');
  };
  const database = new Database({
    url: config['database.url'],
    poolSize: config['database.poolSize'],
    acceptancePoolSize: config['database.acceptancePoolSize'],
    deliveryPoolSize: config['database.deliveryPoolSize'],
    connectTimeoutMs: config['database.connectTimeoutMs'],
    statementTimeoutMs: config['database.statementTimeoutMs'],
    applicationName: `relayops:${instance}`.slice(0, 63),
    onIdleError: (error) => report(error, 'connection'),
  });
  const secretBox = secretBoxOf(config);
  const directory = new EndpointDirectory({
    database,
    config,
    secretBox,
    onError: (error) => report(error, 'directory'),
  });
  const { coordination, redis } = createCoordination({ config, metrics, logger, instance, onError: report });
  const { transport, messaging } = createTransport({
    config,
    database,
    directory,
    coordination,
    metrics,
    instance,
    onError: report,
  });
  const filters = new FilterPool({
    threads: config['filters.threads'],
    deadlineMs: config['filters.deadlineMs'],
    cpuMsPerSecond: config['filters.tenantMsPerSecond'],
    maxWaitMs: config['filters.maxWaitMs'],
    onReport: ({ durationMs }) => metrics.filterSeconds.observe(durationMs / 1000),
    onError: (error) => report(error, 'filters'),
  });
  const acceptor = new Acceptor({
    database,
    directory,
    config,
    clock,
    filters,
    outbox: messaging ? () => ({ claim: messaging.publisher.claim() }) : null,
    onWork: (deliveries, outbox) => {
      const rest = messaging?.transport.handOver(deliveries) ?? deliveries;
      if (rest.length === 0) return;
      if (outbox?.claim) messaging?.publisher.offer(rest);
      else transport.announce(dueNow(rest));
    },
    onGroup: ({ events, stored, replayed, durationMs }) => {
      metrics.acceptSeconds.observe(durationMs / 1000);
      metrics.acceptGroupSize.observe(events);
      metrics.eventsDuplicate.inc(replayed);
      metrics.eventsAccepted.inc(stored);
    },
  });
  const admission = new Admission({
    database,
    config,
    ...(messaging ? { readyMessages: () => readyMessages(messaging, metrics) } : {}),
    onSample: observeAdmission(metrics),
    onError: (error) => report(error, 'admission'),
  });
  const names = new NameResolver({
    servers: config['delivery.dnsServers'],
    timeoutMs: config['delivery.dnsTimeoutMs'],
    maxLookups: config['delivery.dnsLookups'],
    maxCachedNames: config['delivery.dnsCacheNames'],
    observer: {
      onLookup: (result, durationMs) => {
        metrics.dnsLookups.inc({ result });
        metrics.dnsLookupSeconds.observe({ result }, durationMs / 1000);
      },
      onRefused: (why) => metrics.dnsRefused.inc({ why }),
    },
  });
  const sender = new HttpSender({
    allow: parseAllowList(config['delivery.allowAddresses']),
    connectTimeoutMs: config['delivery.connectTimeoutMs'],
    socketsPerOrigin: config['delivery.socketsPerOrigin'],
    maxResponseBytes: config['delivery.maxResponseBytes'],
    http2: config['delivery.http2'],
    resolve: names.resolve,
  });
  const worker = new DeliveryWorker({
    database,
    transport,
    coordination,
    directory,
    sender,
    config,
    clock,
    instance,
    onAttempt: observeAttempt(metrics, logger, clock),
    onHealthChange: (change, endpointId) => {
      metrics.breakerTransitions.inc({ to: change });
      logger.warn({ endpoint_id: endpointId, change }, 'endpoint health changed');
    },
    onLate: (deliveryIds) => {
      metrics.lateResults.inc(deliveryIds.size);
      logger.warn(
        { delivery_ids: [...deliveryIds] },
        'results came after their lease had gone to another worker',
      );
    },
    onError: report,
  });
  const replays = new ReplayRunner({
    database,
    transport,
    config,
    onError: (error) => report(error, 'replay'),
  });
  const janitor = new Janitor({
    database,
    config,
    tasks: [...retentionTasks(database, config.transport), sealingTask(database, secretBox)],
    deletedEndpoints: () => allDeletedEndpoints(database),
    onRound: () => metrics.janitorRound.setToCurrentTime(),
    onRemoved: (what, count) => metrics.janitorRemoved.inc({ what }, count),
    onError: (error) => report(error, 'janitor'),
  });

  const operationalEvents = new OperationalEvents({
    database,
    acceptor,
    onAccepted: (type) => metrics.operationalEvents.inc({ type }),
    onError: (error) => report(error, 'operational events'),
  });

  const lifecycle = new Lifecycle(report);
  lifecycle.add({ name: 'database', stop: () => database.close() });
  lifecycle.add({ name: 'filters', stop: () => filters.close() });
  lifecycle.add({ name: 'coordination', stop: () => coordination.close() });
  lifecycle.add({ name: 'names', stop: () => names.close() });
  lifecycle.add({ name: 'sender', stop: () => sender.close() });
  lifecycle.add({ name: 'directory', start: () => directory.start(), stop: () => directory.stop() });
  lifecycle.add({
    name: 'transport',
    start: () => messaging?.transport.start(),
    stop: () => transport.close(),
  });
  return {
    config,
    instance,
    clock,
    logger,
    metrics,
    database,
    directory,
    secretBox,
    coordination,
    redis,
    transport,
    messaging,
    names,
    acceptor,
    admission,
    worker,
    replays,
    janitor,
    operationalEvents,
    lifecycle,
  };
}

/** Each endpoint once. */
function dueNow(deliveries: readonly DueDelivery[]): DueWork[] {
  const endpointIds = new Set(deliveries.map((delivery) => delivery.endpointId));
  return Array.from(endpointIds, (endpointId) => ({ endpointId, inMs: 0 }));
}
