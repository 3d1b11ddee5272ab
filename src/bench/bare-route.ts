import type { AddressInfo } from 'node:net';
import { type Acceptor, eventRoutes, EventsService } from '../events/index.ts';
import { httpLimits } from '../app/http-limits.ts';
import { createHttpServer } from '../platform/http/server.ts';
import { type EventId, newId } from '../shared/ids.ts';
import { createTenantsService, registerAuthentication } from '../tenants/index.ts';
import type { BenchSystem } from './bench-system.ts';

/**
 * The yardstick of acceptance: the same server, authentication, parsing and answer, with nothing written.
 * @param onEvent what is done instead, before the answer
 */
export async function startBareRoute(
  system: BenchSystem,
  onEvent: (eventId: EventId, payload: Buffer) => Promise<void>,
): Promise<{ url: string; close(): Promise<void> }> {
  const { config, database, clock, logger, coordination } = system.runtime;
  const server = await createHttpServer({
    logger,
    maxBodyBytes: config['ingest.maxRequestBytes'],
    limits: httpLimits(config),
  });
  const tenants = createTenantsService({ database, config, clock, logger });
  registerAuthentication(server, tenants.authenticator);
  const accept: Pick<Acceptor, 'accept'> = {
    accept: async (event) => {
      const eventId = newId<EventId>(clock.now());
      await onEvent(eventId, event.payload);
      return {
        ok: true,
        accepted: { eventId, acceptedAt: new Date(clock.now()), deliveries: 1, replayed: false },
      };
    },
  };
  eventRoutes(
    server,
    new EventsService({
      database,
      acceptor: accept as Acceptor,
      coordination,
      config,
      limitsOf: () => ({ ingestRate: null, ingestBurst: null }),
      admission: { refusal: () => null },
      onRefused: () => undefined,
    }),
  );
  await server.listen({ host: '127.0.0.1', port: 0 });
  return {
    url: `http://127.0.0.1:${(server.server.address() as AddressInfo).port}`,
    close: async () => {
      server.server.closeAllConnections();
      await server.close();
      await tenants.close();
    },
  };
}
