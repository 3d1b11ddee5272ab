import { defineConfig } from 'vitest/config';

/** Tests that kill processes and stop the database. One file at a time: each starts a durable PostgreSQL of its own. */
export default defineConfig({
  test: {
    root: new URL('../..', import.meta.url).pathname,
    include: ['test/crash/**/*.test.ts'],
    pool: 'forks',
    fileParallelism: false,
    testTimeout: 180_000,
    hookTimeout: 60_000,
    disableConsoleIntercept: true,
  },
});
