/**
 * Starts RabbitMQ and Redis for development and prints what to export for RelayOps to use them. Both run on loopback ports until
 * Ctrl-C and keep nothing.
 */
import { once } from 'node:events';
import { environmentName } from '../src/config/keys.ts';
import { ensureServices } from '../src/platform/services/packages.ts';
import { LocalRabbitMq } from '../src/platform/services/rabbitmq.ts';
import { LocalRedis } from '../src/platform/services/redis.ts';

const stopped = Promise.race(['SIGINT', 'SIGTERM', 'SIGHUP'].map((signal) => once(process, signal)));
await ensureServices(['rabbitmq', 'redis']);
const started = await Promise.allSettled([LocalRabbitMq.start(), LocalRedis.start()]);
const [rabbitmq, redis] = started;
try {
  if (rabbitmq.status === 'rejected') throw rabbitmq.reason;
  if (redis.status === 'rejected') throw redis.reason;
  const variables = {
    transport: 'rabbitmq',
    'rabbitmq.url': rabbitmq.value.url,
    coordination: 'redis',
    'redis.url': redis.value.url,
  };
  for (const [key, value] of Object.entries(variables))
    console.log(`export ${environmentName(key)}=${value}`);
  console.error('RabbitMQ and Redis run until Ctrl-C.');
  await stopped;
} finally {
  for (const one of started) if (one.status === 'fulfilled') await one.value.dispose();
}
