import type { HttpServer } from '../platform/http/server.ts';
import type { Runtime } from './runtime.ts';

/** How long a readiness probe waits for the database. */
const PROBE_TIMEOUT_MS = 2_000;

export interface DependencyState {
  readonly name: string;
  /** Without it the process cannot do its work. Others may be away: what they would do is done without them, only not as well. */
  readonly required: boolean;
  readonly up: boolean;
  readonly latencyMs: number | null;
  readonly detail: string | null;
}

/** Where a process is in its life. */
export type Phase = 'starting' | 'serving' | 'stopping';

/** Liveness, readiness with the state of each dependency, and metrics. Nothing in them is a tenant's. */
export function healthRoutes(app: HttpServer, runtime: Runtime, phase: () => Phase): void {
  app.get('/livez', { config: { auth: 'public' }, schema: { hide: true } }, async () => ({ status: 'ok' }));

  app.get('/readyz', { config: { auth: 'public' }, schema: { hide: true } }, async (_request, reply) => {
    const dependencies = await lookAtDependencies(runtime);
    const now = phase();
    const ready = now === 'serving' && dependencies.every(({ up, required }) => up || !required);
    return reply.code(ready ? 200 : 503).send({
      status: now !== 'serving' ? now : ready ? 'ready' : 'not ready',
      role: runtime.config.role,
      instance: runtime.instance,
      intake: runtime.admission.state(),
      dependencies,
    });
  });

  app.get('/metrics', { config: { auth: 'public' }, schema: { hide: true } }, async (_request, reply) => {
    sampleNow(runtime);
    await lookAtDependencies(runtime);
    return reply.type(runtime.metrics.registry.contentType).send(await runtime.metrics.registry.metrics());
  });
}

/** The state of each, which the metrics are told of as well. */
async function lookAtDependencies(runtime: Runtime): Promise<DependencyState[]> {
  const states = [await probeDatabase(runtime), ...brokerStates(runtime), ...redisStates(runtime)];
  for (const { name, up } of states) runtime.metrics.dependencyUp.set({ dependency: name }, up ? 1 : 0);
  return states;
}

/** Without Redis a process goes on under its share of the limits. */
function redisStates({ redis }: Runtime): DependencyState[] {
  if (redis === null) return [];
  const { up, degraded } = redis.state();
  const detail = degraded ? 'limits are local' : null;
  return [{ name: 'redis', required: false, up: up && !degraded, latencyMs: null, detail }];
}

/** A broker that is away is no reason to be not ready: events are stored, and workers take them from the database. */
function brokerStates({ messaging }: Runtime): DependencyState[] {
  if (messaging === null) return [];
  const { publishing, consuming } = messaging.transport.state();
  const up = publishing && consuming !== false;
  const detail = up ? null : publishing ? 'does not consume' : 'cannot publish';
  return [{ name: 'rabbitmq', required: false, up, latencyMs: null, detail }];
}

async function probeDatabase({ database }: Runtime): Promise<DependencyState> {
  const started = performance.now();
  let timer: NodeJS.Timeout | undefined;
  try {
    const timeout = new Promise<never>((_resolve, reject) => {
      timer = setTimeout(
        () => reject(new Error(`no answer within ${PROBE_TIMEOUT_MS} ms`)),
        PROBE_TIMEOUT_MS,
      );
    });
    await Promise.race([database.requests.query('SELECT 1'), timeout]);
    return {
      name: 'postgresql',
      required: true,
      up: true,
      latencyMs: Math.round((performance.now() - started) * 10) / 10,
      detail: null,
    };
  } catch (error) {
    const code = (error as { code?: unknown }).code;
    return {
      name: 'postgresql',
      required: true,
      up: false,
      latencyMs: null,
      detail: typeof code === 'string' ? code : 'no answer',
    };
  } finally {
    clearTimeout(timer);
  }
}

function sampleNow({ metrics, worker, coordination, config, names }: Runtime): void {
  const held = coordination.held();
  metrics.inFlight.set(worker.inFlight);
  metrics.permitsLeft.set(Math.max(0, config['delivery.concurrency'] - worker.inFlight));
  metrics.dnsCachedNames.set(names.cachedNames);
  metrics.endpointsBusy.set(held.size);
  metrics.permitsHeld.set([...held.values()].reduce((sum, count) => sum + count, 0));
}
