import type { Config } from '../config/index.ts';
import type { HttpLimits } from '../platform/http/server.ts';

/** What connections to the API may cost, out of the configuration. */
export function httpLimits(config: Config): HttpLimits {
  return {
    maxConnections: config['http.maxConnections'],
    maxConnectionsPerAddress: config['http.maxConnectionsPerAddress'],
    headersTimeoutMs: config['http.headersTimeoutMs'],
    requestTimeoutMs: config['http.requestTimeoutMs'],
    keepAliveTimeoutMs: config['http.keepAliveTimeoutMs'],
    writeTimeoutMs: config['http.writeTimeoutMs'],
  };
}
