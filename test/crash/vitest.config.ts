import { defineConfig } from 'vitest/config';

/** Tests that kill processes and stop servers. One file at a time: each starts a durable PostgreSQL of its own. */
export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/crash/**/*.test.ts'],
    globalSetup: ['test/crash/global-setup.ts'],
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 60_000,
    disableConsoleIntercept: true,
  },
});
