import type { Config } from '../../src/config/index.ts';
import { freePorts } from '../../src/platform/services/local-process.ts';
import { LocalRabbitMq } from '../../src/platform/services/rabbitmq.ts';
import { LocalRedis } from '../../src/platform/services/redis.ts';
import type { BehaviourInput, SimulatedReceiver } from '../../src/simulator/index.ts';
import { topology, type Topology } from '../../src/transport/rabbitmq/topology.ts';
import { depths } from '../support/rabbitmq.ts';
import type { RelayClient } from '../support/relay-client.ts';
import { until } from '../support/until.ts';
import { CrashSite } from './crash-site.ts';
import type { LoadOptions } from './load.ts';
import { Seat, type Servers } from './seat.ts';
import { type Outcome, type Traffic, underLoad } from './under-load.ts';

/** Limit of a graceful stop. */
export const STOP_MS = 1_500;

/** Short enough that faults are found in seconds. */
const CONFIG: Partial<Config> = {
  'shutdown.timeoutMs': STOP_MS,
  transport: 'rabbitmq',
  coordination: 'redis',
  'database.poolSize': 4,
  'database.acceptancePoolSize': 2,
  'database.deliveryPoolSize': 4,
  'rabbitmq.heartbeatS': 1,
  'rabbitmq.confirmTimeoutMs': 1_500,
  'rabbitmq.overdueMs': 1_500,
  'outbox.claimMs': 2_000,
  'outbox.pollMs': 100,
  'redis.timeoutMs': 300,
  // Failing endpoints are not what these tests are about.
  'health.failuresToOpen': 10_000,
};
const APIS = 2;
const WORKERS = 3;
const SENDERS = 3;
const PAUSE_MS = 40;
const PROMPT: BehaviourInput = { latencyMs: 10, jitterMs: 40 };
const ROOMY = { maxConcurrency: 64 };
const DRAIN_LIMIT_MS = 15_000;
const CONNECT_LIMIT_MS = 20_000;

interface Readiness {
  readonly dependencies: readonly { readonly name: string; readonly up: boolean }[];
}

/** An endpoint with a receiver of its own. */
export interface Target {
  readonly behaviour?: BehaviourInput;
  readonly settings?: Parameters<RelayClient['endpoint']>[2];
}

export interface FleetCourse {
  /** Events go to them in turn. */
  readonly targets?: readonly Target[];
  readonly load?: Partial<LoadOptions>;
}

/** What a fault is done to. */
export interface Scene extends Traffic {
  /** One for each target. */
  readonly receivers: readonly SimulatedReceiver[];
  readonly endpointIds: readonly string[];
}

/** Two APIs and three workers, each a process with a network of its own, on PostgreSQL, RabbitMQ and Redis of their own. */
export class Fleet {
  readonly site: CrashSite;
  readonly rabbitmq: LocalRabbitMq;
  readonly redis: LocalRedis;
  readonly apis: readonly Seat[];
  readonly workers: readonly Seat[];
  readonly queues: Topology = topology('relayops');

  private constructor(
    site: CrashSite,
    rabbitmq: LocalRabbitMq,
    redis: LocalRedis,
    apis: readonly Seat[],
    workers: readonly Seat[],
  ) {
    this.site = site;
    this.rabbitmq = rabbitmq;
    this.redis = redis;
    this.apis = apis;
    this.workers = workers;
  }

  static async open(): Promise<Fleet> {
    const [site, rabbitmq, redis] = await Promise.all([
      CrashSite.open(),
      LocalRabbitMq.start(),
      LocalRedis.start(),
    ]);
    const servers: Servers = { postgres: site.server.url, rabbitmq: rabbitmq.url, redis: redis.url };
    const seat = (name: string, own: Partial<Config>): Promise<Seat> =>
      Seat.make({ site, name, servers, config: { ...CONFIG, ...own } });
    const ports = await freePorts(APIS);
    const apis = await Promise.all(
      ports.map((port, n) => seat(`api-${n + 1}`, { role: 'api', 'http.port': port, 'http.adminPort': 0 })),
    );
    const workers = await Promise.all(
      Array.from({ length: WORKERS }, (_, n) =>
        seat(`worker-${n + 1}`, { role: 'worker', 'http.port': 0, 'http.adminPort': 0 }),
      ),
    );
    const fleet = new Fleet(site, rabbitmq, redis, apis, workers);
    await Promise.all(fleet.seats.map((one) => one.start()));
    await fleet.untilConnected();
    return fleet;
  }

  get seats(): readonly Seat[] {
    return [...this.apis, ...this.workers];
  }

  /** A client of the first API. */
  get api(): RelayClient {
    return this.site.api.at(this.apis[0]!.child.url);
  }

  /** Lets something happen under load to endpoints of its own, and checks afterwards that nothing is lost or left. */
  async under(
    name: string,
    { targets = [{}], load }: FleetCourse,
    happening: (scene: Scene) => Promise<void>,
  ): Promise<Outcome> {
    const receivers = targets.map((_, n) => this.site.simulator.receiver(`${name}-${n}`));
    const endpointIds: string[] = [];
    for (const [n, { behaviour = PROMPT, settings = ROOMY }] of targets.entries()) {
      receivers[n]!.configure({ behaviour });
      const subscriptions = ['again', 'once'].map((kind) => ({ pattern: `${name}.${kind}.${n}` }));
      const endpoint = await this.api.endpoint(receivers[n]!.url, '', { ...settings, subscriptions });
      endpointIds.push(endpoint.endpointId);
    }
    const urls = this.apis.map(({ child }) => child.url);
    const course = {
      name,
      receivers,
      load: { urls, senders: SENDERS, pauseMs: PAUSE_MS, types: targets.length, ...load },
      settle: () => this.settle(),
    };
    return underLoad(this.site, course, (traffic) => happening({ ...traffic, receivers, endpointIds }));
  }

  /** What the metric says, summed over the workers. */
  async count(metric: string, labels: Readonly<Record<string, string>> = {}): Promise<number> {
    const values = await Promise.all(this.workers.map(({ child }) => child.metric(metric, labels)));
    return values.reduce((sum, value) => sum + value, 0);
  }

  /** Messages that workers received, by what became of them. */
  messages(fate: 'claimed' | 'stale' | 'foreign'): Promise<number> {
    return this.count('broker_messages_total', { fate });
  }

  /** Waits until every process says that all it depends on is up. */
  async untilConnected(): Promise<void> {
    for (const { child } of this.seats)
      await until(
        `${child.instance} has everything it needs`,
        async () => (await fetch(`${child.adminUrl}/readyz`)).json() as Promise<Readiness>,
        ({ dependencies }) => dependencies.every(({ up }) => up),
        CONNECT_LIMIT_MS,
      );
  }

  /** Everything works again, whatever was done to it. */
  async mend(): Promise<void> {
    await Promise.all([this.site.server.startServer(), this.rabbitmq.startAgain(), this.redis.startAgain()]);
    await Promise.all(this.seats.map((seat) => seat.mend()));
    await this.untilConnected();
  }

  /**
   * Stops all processes in order, once no message waits any more.
   * @returns messages in the ready queue after that: those that workers had and did not acknowledge
   */
  async stop(): Promise<number> {
    const { ready, retries } = this.queues;
    await until(
      'no message waits',
      () => depths(this.rabbitmq.url, [ready, ...retries]),
      (messages) => messages === 0,
      DRAIN_LIMIT_MS,
    );
    await Promise.all(this.seats.map((seat) => seat.stop()));
    return depths(this.rabbitmq.url, [ready]);
  }

  async close(): Promise<void> {
    await Promise.all(this.seats.map((seat) => seat.close()));
    await Promise.all([this.rabbitmq.dispose(), this.redis.dispose(), this.site.close()]);
  }

  /** Waits until nothing is open, no outbox row is left and no message waits for a worker. */
  async settle(): Promise<void> {
    await this.site.settle();
    await until(
      'no outbox row and no message',
      async () => ({
        rows: await this.site.number('SELECT count(*)::int AS n FROM relayops.outbox_messages'),
        messages: await depths(this.rabbitmq.url, [this.queues.ready]),
      }),
      ({ rows, messages }) => rows === 0 && messages === 0,
      DRAIN_LIMIT_MS,
    );
  }
}
