export type TransportName = 'postgres' | 'rabbitmq';

/** A figure that TARGETS names: its field and its bound. */
export interface Target {
  readonly field: string;
  readonly atLeast?: number;
  readonly atMost?: number;
}

/** What a scenario is given. */
export interface BenchContext {
  /** Progress of long work. */
  readonly progress: (phase: string, done: number, total: number) => void;
  readonly transport: TransportName;
  /** Worker processes; above 1 they are processes of their own. */
  readonly workers: number;
  /** 1 for the full size; smaller for a quick look, whose figures are no claim. */
  readonly scale: number;
}

/** A scenario's own fields; the frame adds scenario, transport, node, durationMs and rssMb. */
export interface ScenarioOutcome {
  readonly lost: number;
  readonly duplicates: number;
  readonly [field: string]: number;
}

export interface Scenario {
  readonly name: string;
  readonly text: string;
  readonly targets: readonly Target[];
  /** Targets with RabbitMQ and Redis, where they are others; absent when the scenario is about the PostgreSQL transport alone. */
  readonly rabbitmqTargets?: readonly Target[];
  run(context: BenchContext): Promise<ScenarioOutcome>;
}
