import { describe, inject } from 'vitest';

declare module 'vitest' {
  interface ProvidedContext {
    /** Broker of this run, virtual host `/`; null when there is none. Every test file uses names of its own. */
    rabbitmqUrl: string | null;
    /** Redis of this run; null when there is none. Every test file uses a prefix of its own. */
    redisUrl: string | null;
  }
}

/** A suite that needs RabbitMQ: skipped, and reported as skipped, where there is none. */
export function describeRabbitMq(name: string, suite: (url: string) => void): void {
  const url = inject('rabbitmqUrl');
  describe.skipIf(url === null)(name, () => suite(url ?? ''));
}

/** A suite that needs Redis: skipped, and reported as skipped, where there is none. */
export function describeRedis(name: string, suite: (url: string) => void): void {
  const url = inject('redisUrl');
  describe.skipIf(url === null)(name, () => suite(url ?? ''));
}
