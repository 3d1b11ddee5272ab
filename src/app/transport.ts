import type { Config } from '../config/index.ts';
import type { Coordination } from '../coordination/port.ts';
import type { EndpointDirectory } from '../endpoints/index.ts';
import { OutboxPublisher } from '../outbox/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { Metrics } from '../platform/telemetry/metrics.ts';
import { monotonicClock } from '../shared/clock.ts';
import { PostgresTransport } from '../transport/postgres/index.ts';
import type { Transport } from '../transport/port.ts';
import { RabbitTransport } from '../transport/rabbitmq/index.ts';

interface TransportContext {
  readonly config: Config;
  readonly database: Database;
  readonly directory: EndpointDirectory;
  readonly coordination: Coordination;
  readonly metrics: Metrics;
  readonly instance: string;
  readonly onError: (error: unknown, part: string) => void;
}

/** The RabbitMQ adapter with its publisher, for what only a broker has: connections, outbox, queues. */
export interface Messaging {
  readonly transport: RabbitTransport;
  readonly publisher: OutboxPublisher;
}

/** The configured transport; `messaging` is null when it has no messages. Starts nothing. */
export function createTransport(context: TransportContext): {
  readonly transport: Transport;
  readonly messaging: Messaging | null;
} {
  const { config, database, directory, coordination, metrics, instance, onError } = context;
  const common = {
    database,
    directory,
    coordination,
    config,
    clock: monotonicClock,
    instance,
    onError,
    onClaim: ({
      durationMs,
      rows,
      lostAttempts,
    }: {
      durationMs: number;
      rows: number;
      lostAttempts: number;
    }) => {
      metrics.claimSeconds.observe(durationMs / 1000);
      metrics.claimRows.observe(rows);
      if (lostAttempts > 0) metrics.attempts.inc({ outcome: 'unknown' }, lostAttempts);
    },
    onSweep: (oldestDueAgeMs: number) => metrics.backlogOldestSeconds.set(oldestDueAgeMs / 1000),
  };
  if (config.transport === 'postgres') return { transport: new PostgresTransport(common), messaging: null };

  const transport: RabbitTransport = new RabbitTransport({
    ...common,
    onOutbox: () => publisher.poke(),
    onOwnDone: (deliveries) => {
      metrics.outboxSkipped.inc(deliveries.length);
      publisher.skip(deliveries);
    },
    onOwnLeft: (deliveries) => publisher.offer(deliveries),
    onMessages: (fate, count) => metrics.brokerMessages.inc({ fate }, count),
    onOverdue: (count) => metrics.overdueClaimed.inc(count),
  });
  const publisher: OutboxPublisher = new OutboxPublisher({
    database,
    broker: transport.broker,
    config,
    instance,
    onPublished: ({ messages, failed, durationMs }) => {
      metrics.outboxPublishSeconds.observe(durationMs / 1000);
      const confirmed = { ready: 0, retry: 0, dead: 0 };
      for (const { id, queue, inMs } of messages)
        if (!failed.has(id)) confirmed[queue === 'dead' ? 'dead' : inMs > 0 ? 'retry' : 'ready'] += 1;
      for (const [queue, count] of Object.entries(confirmed))
        if (count > 0) metrics.outboxPublished.inc({ queue }, count);
      for (const reason of failed.values()) metrics.outboxFailed.inc({ reason });
    },
    onError: (error) => onError(error, 'outbox'),
  });
  return { transport, messaging: { transport, publisher } };
}
