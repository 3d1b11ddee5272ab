/** What a scenario is given. */
export interface BenchContext {
  /** Progress of long work. */
  readonly progress: (phase: string, done: number, total: number) => void;
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
  /** The figure that TARGETS names, for the report: field, bound and direction. */
  readonly targets: readonly {
    readonly field: string;
    readonly atLeast?: number;
    readonly atMost?: number;
  }[];
  run(context: BenchContext): Promise<ScenarioOutcome>;
}
