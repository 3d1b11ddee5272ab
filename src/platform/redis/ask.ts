import { Redis } from 'ioredis';

const TIMEOUT_MS = 5_000;

/** What a server says of itself. @throws when it cannot be reached, or refuses the credentials */
export async function askRedis(
  url: string,
): Promise<{ version: string; maxMemoryPolicy: string; clusterEnabled: boolean }> {
  const client = new Redis(url, {
    lazyConnect: true,
    connectTimeout: TIMEOUT_MS,
    commandTimeout: TIMEOUT_MS,
    maxRetriesPerRequest: 0,
    retryStrategy: () => null,
  });
  client.on('error', () => undefined);
  try {
    await client.connect();
    const info = await client.info();
    const field = (name: string): string => new RegExp(`^${name}:(.*)$`, 'm').exec(info)?.[1]?.trim() ?? '';
    return {
      version: field('redis_version'),
      maxMemoryPolicy: field('maxmemory_policy'),
      clusterEnabled: field('cluster_enabled') === '1',
    };
  } finally {
    client.disconnect();
  }
}
