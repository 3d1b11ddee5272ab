import type { Config } from '../config/index.ts';
import { MemoryCoordination } from '../coordination/memory/index.ts';
import type { Coordination } from '../coordination/port.ts';
import { RedisCoordination } from '../coordination/redis/index.ts';
import type { Logger } from '../platform/telemetry/logger.ts';
import type { Metrics } from '../platform/telemetry/metrics.ts';
import { monotonicClock } from '../shared/clock.ts';

interface CoordinationContext {
  readonly config: Config;
  readonly metrics: Metrics;
  readonly logger: Logger;
  readonly instance: string;
  readonly onError: (error: unknown, part: string) => void;
}

/** The configured coordination; `redis` is null when it needs no server. */
export function createCoordination({ config, metrics, logger, instance, onError }: CoordinationContext): {
  readonly coordination: Coordination;
  readonly redis: RedisCoordination | null;
} {
  if (config.coordination === 'memory')
    return { coordination: new MemoryCoordination(monotonicClock), redis: null };
  metrics.coordinationDegraded.set(0);
  const redis = new RedisCoordination({
    url: config['redis.url'],
    cluster: config['redis.cluster'],
    prefix: config['redis.prefix'],
    timeoutMs: config['redis.timeoutMs'],
    leaseMs: config['delivery.leaseMs'],
    instance,
    clock: monotonicClock,
    onDegraded: (isDegraded, reason) => {
      metrics.coordinationDegraded.set(isDegraded ? 1 : 0);
      if (isDegraded) logger.warn({ reason }, 'Redis is away: going on under local limits');
      else logger.info({ reason }, 'Redis is back: limits are shared again');
    },
    onAcquire: (durationMs) => metrics.coordinationSeconds.observe(durationMs / 1000),
    onError: (error) => onError(error, 'redis'),
  });
  return { coordination: redis, redis };
}
