import type { Channel } from '../../platform/amqp/link.ts';

/**
 * Pauses of the retry queues: 1 s, 2 s, 4 s … 9.1 h. A message waits in the longest that is not longer than what is left, and so reaches any due
 * time in a few hops. One queue a pause, with a time-to-live of the queue: one of each message would block behind the head.
 */
const RETRY_PAUSES_S = Array.from({ length: 16 }, (_, n) => 2 ** n);

/** Work that is due in less than this is not worth a message: it is kept in mind by the process that knows of it. */
export const SHORTEST_PAUSE_MS = RETRY_PAUSES_S[0]! * 1_000;

export interface Topology {
  readonly ready: string;
  readonly dead: string;
  readonly retries: readonly string[];
}

export function topology(prefix: string): Topology {
  return {
    ready: `${prefix}.ready`,
    dead: `${prefix}.dead`,
    retries: RETRY_PAUSES_S.map((seconds) => `${prefix}.retry.${seconds}`),
  };
}

/** The queue in which a message waits that is due in `inMs`: ready when it is (almost) due. */
export function queueFor(queues: Topology, inMs: number): string {
  if (inMs < SHORTEST_PAUSE_MS) return queues.ready;
  const n = Math.min(Math.floor(Math.log2(inMs / SHORTEST_PAUSE_MS)), queues.retries.length - 1);
  return queues.retries[n]!;
}

/**
 * Declares all queues: durable quorum queues (RabbitMQ 3.10 and newer). Idempotent; done on every new connection, since queues may have
 * been deleted meanwhile. @throws PRECONDITION_FAILED when one exists with other arguments
 */
export async function declareTopology(
  channel: Channel,
  queues: Topology,
  deadMaxMessages: number,
): Promise<void> {
  await channel.assertQueue(queues.ready, { durable: true, arguments: QUORUM });
  await channel.assertQueue(queues.dead, {
    durable: true,
    arguments: { ...QUORUM, 'x-max-length': deadMaxMessages, 'x-overflow': 'drop-head' },
  });
  await Promise.all(
    queues.retries.map((name, n) =>
      channel.assertQueue(name, {
        durable: true,
        arguments: {
          ...QUORUM,
          'x-message-ttl': RETRY_PAUSES_S[n]! * 1_000,
          'x-dead-letter-exchange': '',
          'x-dead-letter-routing-key': queues.ready,
          // A message leaves only once the ready queue has confirmed it, which needs this kind of overflow.
          'x-dead-letter-strategy': 'at-least-once',
          'x-overflow': 'reject-publish',
        },
      }),
    ),
  );
}

const QUORUM = { 'x-queue-type': 'quorum' };
