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
  return {
    registry,
    eventsAccepted: counter('events_accepted_total', 'Events that were stored.'),
    eventsDuplicate: counter(
      'events_duplicate_total',
      'Events that repeated an idempotency key and were answered with the original.',
    ),
    eventsRefused: counter('events_refused_total', 'Events that were refused, by error code.', ['code']),
    acceptSeconds: histogram('accept_group_seconds', 'Duration of one group commit.'),
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
      'Age of the oldest due delivery that was seen by the last sample.',
    ),
    dead: gauge(
      'dead_deliveries',
      'Sampled deliveries that ended failed or dead and are still kept; counted up to 20,000 of both.',
      ['state'],
    ),
    dependencyUp: gauge('dependency_up', '1 when the dependency answered its last probe.', ['dependency']),
    errors: counter('errors_total', 'Unexpected errors of background work, by part.', ['part']),
    janitorRemoved: counter('janitor_removed_total', 'Rows or partitions removed by retention.', ['what']),
  };
}

export type Metrics = ReturnType<typeof createMetrics>;
