import { collectDefaultMetrics, Counter, Gauge, Histogram, Registry } from 'prom-client';

const SECONDS = [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60];

/** Every metric, once. Labels are bounded sets; no tenant, endpoint or event is ever a label. */
export function createMetrics() {
  const registry = new Registry();
  collectDefaultMetrics({ register: registry, prefix: 'relayops_' });
  const registers = [registry];
  const counter = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Counter({ name: `relayops_${name}`, help, labelNames, registers });
  const gauge = <L extends string>(name: string, help: string, labelNames: readonly L[] = []) =>
    new Gauge({ name: `relayops_${name}`, help, labelNames, registers });
  const histogram = <L extends string>(
    name: string,
    help: string,
    labelNames: readonly L[] = [],
    buckets = SECONDS,
  ) => new Histogram({ name: `relayops_${name}`, help, labelNames, buckets, registers });
  const metrics = {
    registry,
    eventsAccepted: counter('events_accepted_total', 'Events that were stored.'),
    eventsDuplicate: counter(
      'events_duplicate_total',
      'Events that repeated an idempotency key and were answered with the original.',
    ),
    connectionsCut: counter(
      'http_connections_cut_total',
      'Client connections that were closed from our side, by reason: too_many_of_address, answer_not_read.',
      ['reason'],
    ),
    eventsRefused: counter('events_refused_total', 'Events that were refused, by error code.', ['code']),
    acceptSeconds: histogram('accept_group_seconds', 'Duration of one group commit.'),
    filterSeconds: histogram('filter_seconds', 'Time that the filters of one event took in a worker thread.'),
    acceptGroupSize: histogram(
      'accept_group_events',
      'Events in one group commit.',
      [],
      [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    ),
    attempts: counter('delivery_attempts_total', 'Attempts by outcome.', ['outcome']),
    attemptSeconds: histogram('delivery_attempt_seconds', 'Duration of an attempt, by outcome.', ['outcome']),
    deliveriesEnded: counter('deliveries_ended_total', 'Deliveries that reached a final state, by state.', [
      'state',
    ]),
    acceptToDeliveredSeconds: histogram(
      'accept_to_delivered_seconds',
      'From acceptance to the successful answer of the first attempt.',
    ),
    lateResults: counter(
      'delivery_late_results_total',
      'Results that were fenced off because the lease had gone to another worker.',
    ),
    claimSeconds: histogram(
      'delivery_claim_seconds',
      'Duration of a claim that found work.',
      [],
      [0.001, 0.002, 0.005, 0.01, 0.015, 0.02, 0.03, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5],
    ),
    claimRows: histogram(
      'delivery_claim_rows',
      'Deliveries in one claim.',
      [],
      [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000],
    ),
    dnsLookups: counter(
      'dns_lookups_total',
      'Look-ups of host names that ended, by result: `answered`, `not_found`, `server_failure`, `timeout`, `cancelled` (nobody waited for it any more). Cached answers are none.',
      ['result'],
    ),
    dnsLookupSeconds: histogram('dns_lookup_seconds', 'Duration of a look-up, by result.', ['result']),
    dnsRefused: counter(
      'dns_refused_total',
      'Requests that were deferred because their name could not be looked up within our own limits: `queue_full` (no place to wait for the tenant), `waited` (no turn within 1 s).',
      ['why'],
    ),
    dnsCachedNames: gauge('dns_cached_names', 'Host names whose look-up this process remembers.'),
    inFlight: gauge('delivery_in_flight', 'Requests in flight in this process.'),
    permitsHeld: gauge('delivery_permits_held', 'Endpoint permits held by this process.'),
    endpointsBusy: gauge(
      'delivery_endpoints_busy',
      'Endpoints with at least one request in flight in this process.',
    ),
    backlog: gauge(
      'backlog_deliveries',
      'Sampled open deliveries, exact up to 20,000 and estimated above; in_progress holds a lease that has not run out.',
      ['state'],
    ),
    backlogOldestSeconds: gauge(
      'backlog_oldest_seconds',
      'For how long the oldest due delivery has been due, as of the last sweep; without those of endpoints that are held back, paused or disabled.',
    ),
    dead: gauge(
      'dead_deliveries',
      'Sampled deliveries that ended failed or dead and are still kept; counted up to 20,000 of both.',
      ['state'],
    ),
    permitsLeft: gauge(
      'delivery_permits_left',
      'Deliveries that this process could start now: `delivery.concurrency` less what is in flight.',
    ),
    outboxMessages: gauge('outbox_messages', 'Sampled outbox rows that wait for a publisher (RabbitMQ).'),
    outboxPublished: counter(
      'outbox_published_total',
      'Outbox rows whose message the broker confirmed, by queue: ready, retry, dead.',
      ['queue'],
    ),
    outboxFailed: counter(
      'outbox_failed_total',
      'Tries to publish an outbox row that failed; the row stays for a later one: `returned` (no queue took it), `nacked`, `unconfirmed` (no answer in time, or connection lost), `disconnected` (not sent).',
      ['reason'],
    ),
    outboxSkipped: counter(
      'outbox_skipped_total',
      'First outbox rows that needed no message: the accepting process claimed their deliveries itself, or left them to the database.',
    ),
    outboxPublishSeconds: histogram(
      'outbox_publish_seconds',
      'From the first message of a batch to its last confirm.',
    ),
    brokerMessages: counter(
      'broker_messages_total',
      'Deliveries that messages named, by what became of them: `claimed` (sent now), `left` (its endpoint has no room; the delivery is taken from the database when it has), `early` (not due; to a retry queue), `stale` (ended, or in the hands of another worker), `foreign` (not of this application or version; to the dead-letter queue).',
      ['fate'],
    ),
    brokerQueueMessages: gauge(
      'broker_queue_messages',
      'Sampled messages by queue: ready, retry, dead. A message names up to 64 deliveries. Absent while the broker cannot be asked.',
      ['queue'],
    ),
    overdueClaimed: counter(
      'delivery_overdue_claimed_total',
      'Deliveries that were taken from the database because no message came for them (RabbitMQ).',
    ),
    coordinationDegraded: gauge(
      'coordination_degraded',
      '1 while Redis is away and this process goes on under local limits.',
    ),
    coordinationSeconds: histogram(
      'coordination_acquire_seconds',
      'Duration of asking Redis for permits.',
      [],
      [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1],
    ),
    intakeClosed: gauge(
      'intake_closed',
      '1 while new events get 503, by why: `pending`, `outbox`, `ready` backlog over its threshold; `tenants` is how many tenants are over their own share.',
      ['why'],
    ),
    endpointsHeldBack: gauge(
      'endpoints_held_back',
      'Sampled endpoints whose deliveries wait: `breaker_open` (failing, probed now and then), `disabled`, `paused`.',
      ['why'],
    ),
    breakerTransitions: counter(
      'breaker_transitions_total',
      'Changes of endpoint breakers: `opened`, `probe_failed`, `closed`, `disabled`.',
      ['to'],
    ),
    operationalEvents: counter(
      'operational_events_total',
      'Operational events accepted for tenants that subscribe to them, by type.',
      ['type'],
    ),
    dependencyUp: gauge('dependency_up', '1 when the dependency answered its last probe.', ['dependency']),
    errors: counter('errors_total', 'Unexpected errors of background work, by part.', ['part']),
    janitorRound: gauge(
      'janitor_round_timestamp_seconds',
      'When this process last ended a round of the janitor; absent in processes that run none.',
    ),
    janitorRemoved: counter('janitor_removed_total', 'Rows or partitions removed by retention.', ['what']),
  };
  // A counter that begins with its first event hides that event from `increase()`.
  for (const outcome of ['success', 'retryable', 'rejected', 'gone', 'redirected', 'unknown'])
    metrics.attempts.inc({ outcome }, 0);
  for (const state of ['succeeded', 'failed', 'dead']) metrics.deliveriesEnded.inc({ state }, 0);
  for (const code of [
    'BACKLOG_FULL',
    'RATE_LIMITED',
    'ACCEPTANCE_UNCERTAIN',
    'SERVICE_UNAVAILABLE',
    'INTERNAL',
  ])
    metrics.eventsRefused.inc({ code }, 0);
  for (const reason of ['returned', 'nacked', 'unconfirmed', 'disconnected'])
    metrics.outboxFailed.inc({ reason }, 0);
  for (const fate of ['claimed', 'left', 'early', 'stale', 'foreign'])
    metrics.brokerMessages.inc({ fate }, 0);
  for (const to of ['opened', 'probe_failed', 'closed', 'disabled'])
    metrics.breakerTransitions.inc({ to }, 0);
  for (const result of ['answered', 'not_found', 'server_failure', 'timeout', 'cancelled'])
    metrics.dnsLookups.inc({ result }, 0);
  for (const why of ['queue_full', 'waited']) metrics.dnsRefused.inc({ why }, 0);
  for (const type of ['endpoint.disabled', 'endpoint.recovered', 'delivery.dead'])
    metrics.operationalEvents.inc({ type }, 0);
  return metrics;
}

export type Metrics = ReturnType<typeof createMetrics>;
