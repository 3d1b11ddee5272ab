import { access, readdir, readFile } from 'node:fs/promises';
import amqp from 'amqplib';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { describeRabbitMq, describeRedis } from '../../../test/support/services.ts';
import { ensureServices, findProgram } from './packages.ts';
import { LocalRabbitMq } from './rabbitmq.ts';
import { LocalRedis, LocalRedisCluster } from './redis.ts';
import { freePorts } from './local-process.ts';

describeRabbitMq('a local RabbitMQ', () => {
  let broker: LocalRabbitMq;
  beforeAll(async () => {
    broker = await LocalRabbitMq.start();
  });
  afterAll(() => broker.dispose());

  it('keeps durable queues and persistent messages over a kill and a start', async () => {
    await onChannel(broker.url, async (channel) => {
      await channel.assertQueue('kept', { durable: true });
      channel.sendToQueue('kept', Buffer.from('hello'), { persistent: true });
      await channel.waitForConfirms();
    });
    await broker.stop('kill');
    await expect(amqp.connect(broker.url)).rejects.toThrow(/ECONNREFUSED/);
    await broker.startAgain();
    await onChannel(broker.url, async (channel) => {
      const message = await channel.get('kept', { noAck: true });
      expect(message && message.content.toString()).toBe('hello');
    });
  });

  it('closes the connections of clients when told to', async () => {
    const connection = await amqp.connect(broker.url);
    const closed = new Promise<Error>((resolve) => connection.once('close', resolve));
    await broker.closeAllConnections('maintenance');
    expect((await closed).message).toMatch(/CONNECTION_FORCED.*maintenance/);
  });

  it('leaves no process and no folder', async () => {
    expect(await processesNaming(broker.folder)).not.toEqual([]);
    await broker.dispose();
    expect(await processesNaming(broker.folder)).toEqual([]);
    await expect(access(broker.folder)).rejects.toThrow(/ENOENT/);
    await broker.dispose();
  });
});

describeRedis('a local Redis', () => {
  it('answers, comes back empty on the same port after a stop, and leaves nothing', async () => {
    const redis = await LocalRedis.start();
    expect(await redis.ask('SET kept yes')).toBe('+OK');
    await redis.stop('graceful');
    expect(await redis.ask('PING')).toBe('');
    await redis.startAgain();
    expect(await redis.ask('GET kept')).toBe('$-1');
    await redis.dispose();
    expect(await redis.ask('PING')).toBe('');
    await expect(access(redis.folder)).rejects.toThrow(/ENOENT/);
  });

  it('says why it did not come up', async () => {
    await expect(LocalRedis.start({ settings: { port: 'none' } })).rejects.toThrow(
      /Redis ended with .* while starting: [^]*argument/,
    );
  });

  it('runs as a cluster of three masters', async () => {
    const cluster = await LocalRedisCluster.start();
    try {
      for (const node of cluster.nodes) expect(await node.ask('CLUSTER INFO')).toMatch(/cluster_size:3/);
    } finally {
      await cluster.dispose();
    }
  });
});

it('a program that is not there is not found, and what is installed needs nothing', async () => {
  expect(await findProgram('relayops-no-such-program')).toBeUndefined();
  expect(await findProgram('sh')).toMatch(/\/sh$/);
  await ensureServices([]);
});

it('free ports differ, and are none that an outgoing connection can be given', async () => {
  const ports = await freePorts(5);
  expect(new Set(ports).size).toBe(5);
  expect(Math.max(...ports)).toBeLessThan(32_768);
});

async function onChannel(url: string, work: (channel: amqp.ConfirmChannel) => Promise<void>): Promise<void> {
  const connection = await amqp.connect(url);
  try {
    await work(await connection.createConfirmChannel());
  } finally {
    await connection.close();
  }
}

/** IDs of processes whose environment or arguments name a folder. Linux only; elsewhere none is seen. */
async function processesNaming(folder: string): Promise<string[]> {
  const ids = (await readdir('/proc')).filter((name) => /^\d+$/.test(name));
  const naming = await Promise.all(
    ids.map(async (id) => {
      const texts = ['environ', 'cmdline'].map((name) =>
        readFile(`/proc/${id}/${name}`, 'utf8').catch(() => ''),
      );
      return (await Promise.all(texts)).some((text) => text.includes(folder)) ? [id] : [];
    }),
  );
  return naming.flat();
}
