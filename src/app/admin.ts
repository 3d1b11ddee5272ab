import { closeHttpServer, createHttpServer, type HttpServer } from '../platform/http/server.ts';
import { healthRoutes, type Phase } from './health.ts';
import { httpLimits } from './http-limits.ts';
import type { Runtime } from './runtime.ts';

export interface Admin {
  readonly server: HttpServer;
  /** What the process says of itself; it is ready while it is serving only. */
  enter(phase: Phase): void;
  stop(deadline: AbortSignal): Promise<void>;
}

/** A probe and a scraper or two: whoever opens more has lost count. */
const MAX_CONNECTIONS = 100;
const MAX_BODY_BYTES = 1_024;

/** Probes and metrics, on a port of their own in every role. Not yet listening. */
export async function createAdmin(runtime: Runtime): Promise<Admin> {
  let phase: Phase = 'starting';
  const server = await createHttpServer({
    logger: runtime.logger,
    maxBodyBytes: MAX_BODY_BYTES,
    limits: { ...httpLimits(runtime.config), maxConnections: MAX_CONNECTIONS },
  });
  healthRoutes(server, runtime, () => phase);
  return {
    server,
    enter: (next) => {
      phase = next;
    },
    stop: (deadline) => closeHttpServer(server, deadline),
  };
}
