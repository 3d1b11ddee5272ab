import type { AddressInfo } from 'node:net';
import type { Config } from '../config/index.ts';
import { preparePartitions } from '../delivery/index.ts';
import { migrate } from '../platform/db/migrate.ts';
import type { Part } from '../platform/lifecycle/lifecycle.ts';
import type { Logger } from '../platform/telemetry/logger.ts';
import type { HttpServer } from '../platform/http/server.ts';
import { type Admin, createAdmin } from './admin.ts';
import { type Api, createApi } from './api.ts';
import { projectFile } from './paths.ts';
import { createRuntime, type Runtime } from './runtime.ts';
import { requireKey } from './sealing.ts';

/** One running process of RelayOps. */
export interface RelayProcess {
  readonly runtime: Runtime;
  /** Where the API listens; in a role without one, `adminUrl`. */
  readonly url: string;
  /** Where probes and metrics listen. */
  readonly adminUrl: string;
  /** Intake ends, work in flight finishes within the configured limit, leases are released (SPEC J4). Idempotent. */
  stop(): Promise<void>;
}

/** After the deadline the worker has its last results committed: it allows 5 s for that. */
const COMMIT_RESULTS_MS = 6_000;

/** Migrates, then starts the parts of the configured role. @throws when the database is away, sealed with another key, or a port is taken */
export async function startProcess(config: Config, logger: Logger): Promise<RelayProcess> {
  const applied = await migrate(config['database.url'], projectFile('migrations'));
  if (applied.length > 0) logger.info({ migrations: applied }, 'schema migrated');
  await requireKey(config);
  const runtime = createRuntime(config, logger);
  const { lifecycle, worker, janitor, replays, admission } = runtime;
  const role = config.role;
  let api: Api | undefined;
  let admin: Admin | undefined;
  lifecycle.add({ name: 'partitions', start: () => preparePartitions(runtime.database) });
  lifecycle.add({ name: 'admission', start: () => admission.start(), stop: () => admission.stop() });
  const publisher = runtime.messaging?.publisher;
  // Stopped after the parts that write outbox rows, so that they are published rather than left to others. A worker removes rows of its own, and publishes none.
  if (publisher)
    lifecycle.add({
      name: 'publisher',
      start: () => (role === 'worker' ? undefined : publisher.start()),
      stop: () => publisher.stop(),
    });
  const background: Part[] = [
    {
      name: 'worker',
      start: () => worker.start(),
      stop: (deadline) => worker.stop(deadline),
      graceMs: COMMIT_RESULTS_MS,
    },
    { name: 'replays', start: () => replays.start(), stop: () => replays.stop() },
    {
      name: 'operational events',
      start: () => runtime.operationalEvents.start(),
      stop: () => runtime.operationalEvents.stop(),
    },
    { name: 'janitor', start: () => janitor.start(), stop: () => janitor.stop() },
  ];
  const http: Part = {
    name: 'http',
    start: async () => {
      api = await createApi(runtime);
      await api.server.listen({ host: config['http.host'], port: config['http.port'] });
    },
    stop: (deadline) => api?.stop(deadline),
  };
  // Stopped last, so that a probe sees the process stop.
  lifecycle.add({
    name: 'admin',
    start: async () => {
      admin = await createAdmin(runtime);
      await admin.server.listen({ host: config['http.adminHost'], port: config['http.adminPort'] });
    },
    stop: (deadline) => admin?.stop(deadline),
  });
  // Side by side: a client that keeps its connection open must not take the time that requests in flight need.
  lifecycle.add(...(role === 'api' ? [] : background), ...(role === 'worker' ? [] : [http]));
  await lifecycle.start();
  admin!.enter('serving');
  return {
    runtime,
    url: api ? urlOf(api.server, config['http.host']) : urlOf(admin!.server, config['http.adminHost']),
    adminUrl: urlOf(admin!.server, config['http.adminHost']),
    stop: () => {
      admin!.enter('stopping');
      worker.stopIntake();
      return lifecycle.stop(AbortSignal.timeout(config['shutdown.timeoutMs']));
    },
  };
}

function urlOf(server: HttpServer, listensOn: string): string {
  const { port } = server.server.address() as AddressInfo;
  const host = listensOn === '0.0.0.0' ? '127.0.0.1' : listensOn;
  return `http://${host.includes(':') ? `[${host}]` : host}:${port}`;
}
