import {
  ensureServices,
  type ServiceName,
  ServiceUnavailable,
} from '../../src/platform/services/packages.ts';
import { LocalRabbitMq } from '../../src/platform/services/rabbitmq.ts';
import { LocalRedis } from '../../src/platform/services/redis.ts';

/** The broker and the Redis of one test run. A URL is null when the service cannot be had here. */
export interface SharedServices {
  readonly rabbitmqUrl: string | null;
  readonly redisUrl: string | null;
  stop(): Promise<void>;
}

interface Started {
  readonly url: string;
  dispose(): Promise<void>;
}

const nothing = async (): Promise<void> => undefined;

/**
 * TEST_RABBITMQ_URL and TEST_REDIS_URL name services that run already; otherwise ours are started.
 * @throws ServiceUnavailable with REQUIRE_SERVICES=1, when one is missing
 */
export async function startSharedServices(env: NodeJS.ProcessEnv): Promise<SharedServices> {
  const given = { rabbitmq: env.TEST_RABBITMQ_URL, redis: env.TEST_REDIS_URL };
  const wanted = (['rabbitmq', 'redis'] as const).filter((name) => !given[name]);
  await ensureServices(wanted).catch((error: unknown) => {
    // What is there is started below; what is missing is told there, by name.
    if (!(error instanceof ServiceUnavailable)) throw error;
  });
  const [rabbitmq, redis] = await Promise.all([
    have('rabbitmq', given.rabbitmq, () => LocalRabbitMq.start()),
    have('redis', given.redis, () => LocalRedis.start()),
  ]);
  const stop = async (): Promise<void> => {
    await Promise.all([rabbitmq?.dispose(), redis?.dispose()]);
  };
  if (env.REQUIRE_SERVICES === '1' && (rabbitmq === null || redis === null)) {
    await stop();
    throw new Error('REQUIRE_SERVICES=1, and not all services are here: see above');
  }
  return { rabbitmqUrl: rabbitmq?.url ?? null, redisUrl: redis?.url ?? null, stop };
}

async function have(
  name: ServiceName,
  url: string | undefined,
  start: () => Promise<Started>,
): Promise<Started | null> {
  if (url) return { url, dispose: nothing };
  try {
    return await start();
  } catch (error) {
    const why = error instanceof Error ? error.message : String(error);
    process.stderr.write(`\n*** Tests that need ${name} are SKIPPED: ${why}\n\n`);
    return null;
  }
}
