import { randomBytes } from 'node:crypto';
import { type ConfirmChannel, connect } from 'amqplib';
import { topology, type Topology } from '../../src/transport/rabbitmq/topology.ts';

/** A prefix that no other test uses. */
export function freshPrefix(): string {
  return `test-${randomBytes(5).toString('hex')}`;
}

/** Runs something on a channel of its own, as an operator with a console would. */
export async function onBroker<T>(url: string, work: (channel: ConfirmChannel) => Promise<T>): Promise<T> {
  const connection = await connect(url);
  try {
    const channel = await connection.createConfirmChannel();
    const result = await work(channel);
    await channel.waitForConfirms();
    return result;
  } finally {
    await connection.close();
  }
}

export function allQueues(prefix: string): string[] {
  const { ready, dead, retries }: Topology = topology(prefix);
  return [ready, dead, ...retries];
}

export async function deleteQueues(url: string, prefix: string): Promise<void> {
  await onBroker(url, async (channel) => {
    for (const queue of allQueues(prefix)) await channel.deleteQueue(queue);
  });
}

/** Messages in a queue. */
export async function depth(url: string, queue: string): Promise<number> {
  return depths(url, [queue]);
}

/** Messages in all these queues together. */
export async function depths(url: string, queues: readonly string[]): Promise<number> {
  return onBroker(url, async (channel) => {
    let sum = 0;
    for (const queue of queues) sum += (await channel.checkQueue(queue)).messageCount;
    return sum;
  });
}
