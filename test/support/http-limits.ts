import type { HttpLimits } from '../../src/platform/http/server.ts';

/** Wide enough that no test meets them by accident. */
export const testHttpLimits: HttpLimits = {
  maxConnections: 10,
  maxConnectionsPerAddress: 10,
  headersTimeoutMs: 60_000,
  requestTimeoutMs: 60_000,
  keepAliveTimeoutMs: 60_000,
  writeTimeoutMs: 60_000,
};
