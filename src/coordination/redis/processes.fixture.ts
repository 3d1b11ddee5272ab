import { randomBytes } from 'node:crypto';
import { until } from '../../../test/support/until.ts';
import { monotonicClock } from '../../shared/clock.ts';
import type { EndpointId } from '../../shared/ids.ts';
import type { PermitGrant } from '../port.ts';
import { RedisCoordination, type RedisCoordinationDeps } from './index.ts';

/** One process' adapter, with what it told. */
export interface TestProcess {
  readonly coordination: RedisCoordination;
  readonly degradations: { readonly isDegraded: boolean; readonly reason: string }[];
  readonly errors: unknown[];
  readonly acquireMs: number[];
  /** Asks for slots of one endpoint, without a rate. */
  slots(endpointId: EndpointId, wanted: number, maxConcurrency: number): Promise<PermitGrant>;
  untilDegraded(isDegraded: boolean): Promise<void>;
}

export function newPrefix(): string {
  return `test-${randomBytes(6).toString('hex')}`;
}

/** Processes that share one prefix and are closed together. */
export class TestProcesses {
  readonly prefix = newPrefix();
  readonly #open: RedisCoordination[] = [];

  /** Connected already, unless told otherwise. */
  async start(
    url: string,
    deps: Partial<RedisCoordinationDeps> = {},
    connected = true,
  ): Promise<TestProcess> {
    const degradations: { isDegraded: boolean; reason: string }[] = [];
    const errors: unknown[] = [];
    const acquireMs: number[] = [];
    const coordination = new RedisCoordination({
      url,
      cluster: false,
      prefix: this.prefix,
      timeoutMs: 1_000,
      leaseMs: 5_000,
      instance: `process-${this.#open.length}`,
      clock: monotonicClock,
      onDegraded: (isDegraded, reason) => degradations.push({ isDegraded, reason }),
      onAcquire: (durationMs) => acquireMs.push(durationMs),
      onError: (error) => errors.push(error),
      ...deps,
    });
    this.#open.push(coordination);
    if (connected)
      await until(
        'connected to Redis',
        () => coordination.state(),
        (state) => state.up && !state.degraded,
      );
    return {
      coordination,
      degradations,
      errors,
      acquireMs,
      slots: async (endpointId, wanted, maxConcurrency) =>
        (await coordination.acquire([{ endpointId, wanted, limits: { maxConcurrency, rate: null } }]))[0]!,
      untilDegraded: async (isDegraded) => {
        await until(
          `degraded: ${isDegraded}`,
          () => coordination.state().degraded,
          (seen) => seen === isDegraded,
        );
      },
    };
  }

  async close(): Promise<void> {
    await Promise.all(this.#open.splice(0).map((coordination) => coordination.close()));
  }
}
