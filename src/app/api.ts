import { DeliveryService, deliveryRoutes, ReplayService } from '../delivery/index.ts';
import { EndpointsService, endpointRoutes } from '../endpoints/index.ts';
import { eventRoutes, EventsService } from '../events/index.ts';
import { closeHttpServer, createHttpServer, type HttpServer } from '../platform/http/server.ts';
import type { TenantId } from '../shared/ids.ts';
import {
  createTenantsService,
  loadTenantLimits,
  registerAuthentication,
  type TenantLimits,
  tenantRoutes,
} from '../tenants/index.ts';
import { httpLimits } from './http-limits.ts';
import type { Runtime } from './runtime.ts';
import { version } from './version.ts';

export interface Api {
  readonly server: HttpServer;
  /** Takes no new requests, lets those in flight end, answers those that wait for their commit. */
  stop(deadline: AbortSignal): Promise<void>;
}

const LIMITS_TRUSTED_MS = 5_000;

/** The HTTP API with every feature's routes, not yet listening. */
export async function createApi(runtime: Runtime): Promise<Api> {
  const { config, database, clock, logger, directory, secretBox, transport } = runtime;
  const server = await createHttpServer({
    logger,
    maxBodyBytes: config['http.maxBodyBytes'],
    limits: httpLimits(config),
    trustedProxies: config['http.trustedProxies'],
    documentation: { version },
    onCut: (reason) => runtime.metrics.connectionsCut.inc({ reason }),
  });
  const tenants = createTenantsService({ database, config, clock, logger });
  registerAuthentication(server, tenants.authenticator);

  const limits = new TenantLimitsCache(runtime);
  const events = new EventsService({
    database,
    acceptor: runtime.acceptor,
    coordination: runtime.coordination,
    config,
    limitsOf: (tenantId) => limits.of(tenantId),
    admission: runtime.admission,
    onRefused: (code) => runtime.metrics.eventsRefused.inc({ code }),
  });
  const endpoints = new EndpointsService({
    database,
    config,
    clock,
    directory,
    secretBox,
    // Above the level of the lines that a busy installation switches off.
    onSecretRead: ({ tenantId, endpointId, secretId, actor }) =>
      logger.warn(
        { tenant_id: tenantId, endpoint_id: endpointId, secret_id: secretId, actor },
        'a signing secret was read',
      ),
    onWorkMayBeDue: (endpointId) => transport.endpointChanged(endpointId),
  });
  const deliveries = new DeliveryService(database);
  const replays = new ReplayService({
    database,
    deliveries,
    transport,
    clock,
    wake: () => runtime.replays.wake(),
  });
  tenantRoutes(server, tenants);
  eventRoutes(server, events);
  endpointRoutes(server, endpoints);
  deliveryRoutes(server, { database, deliveries, replays });
  await server.ready();
  return {
    server,
    stop: async (deadline) => {
      await closeHttpServer(server, deadline);
      await runtime.acceptor.stop();
      await tenants.close();
    },
  };
}

/** A tenant's own ingest limits, trusted for some seconds: acceptance asks for them with each event. */
class TenantLimitsCache {
  readonly #runtime: Runtime;
  readonly #known = new Map<TenantId, { readonly limits: TenantLimits; readonly untilMs: number }>();

  constructor(runtime: Runtime) {
    this.#runtime = runtime;
  }

  of(tenantId: TenantId): TenantLimits | Promise<TenantLimits> {
    const known = this.#known.get(tenantId);
    return known !== undefined && known.untilMs > this.#runtime.clock.now()
      ? known.limits
      : this.#load(tenantId);
  }

  async #load(tenantId: TenantId): Promise<TenantLimits> {
    const limits = await loadTenantLimits(this.#runtime.database.requests, tenantId);
    if (this.#known.size > 10_000) this.#known.clear();
    this.#known.set(tenantId, { limits, untilMs: this.#runtime.clock.now() + LIMITS_TRUSTED_MS });
    return limits;
  }
}
