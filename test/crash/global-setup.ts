import type { TestProject } from 'vitest/node';
import { ensureServices, ServiceUnavailable } from '../../src/platform/services/packages.ts';

declare module 'vitest' {
  interface ProvidedContext {
    /** Whether RabbitMQ and Redis can be started here. */
    hasServices: boolean;
  }
}

/** The programs of RabbitMQ and Redis, installed where that is possible. @throws with REQUIRE_SERVICES=1, when one is missing */
export default async function setup(project: TestProject): Promise<void> {
  try {
    await ensureServices(['rabbitmq', 'redis']);
    project.provide('hasServices', true);
  } catch (error) {
    if (!(error instanceof ServiceUnavailable) || process.env.REQUIRE_SERVICES === '1') throw error;
    process.stderr.write(`\n*** Tests with many processes are SKIPPED: ${error.message}\n\n`);
    project.provide('hasServices', false);
  }
}
