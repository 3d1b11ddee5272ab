import { aged, backlog, drain } from './scenarios/drain.ts';
import { fanout } from './scenarios/fanout.ts';
import { ingest, ingestBatch } from './scenarios/ingest.ts';
import { heldXmin } from './scenarios/held-xmin.ts';
import { latency } from './scenarios/latency.ts';
import { noisy } from './scenarios/noisy.ts';
import { sustained } from './scenarios/sustained.ts';
import type { BenchContext, Scenario, Target, TransportName } from './scenario.ts';

/** Every scenario, in the order of the report. */
export const scenarios: readonly Scenario[] = [
  ingest,
  ingestBatch,
  drain,
  sustained,
  latency,
  fanout,
  noisy,
  backlog,
  aged,
  heldXmin,
];

/** One scenario's object: scripts read it, so its names stay. */
export interface BenchObject {
  readonly scenario: string;
  readonly transport: TransportName;
  /** Worker processes. */
  readonly workers: number;
  readonly node: string;
  readonly durationMs: number;
  readonly lost: number;
  readonly duplicates: number;
  readonly rssMb: number;
  readonly [field: string]: number | string;
}

/** A target with what was measured. */
export interface Verdict {
  readonly field: string;
  readonly bound: string;
  readonly measured: number;
  readonly met: boolean;
}

export async function runScenario(scenario: Scenario, context: BenchContext): Promise<BenchObject> {
  const started = performance.now();
  const outcome = await scenario.run(context);
  return {
    scenario: scenario.name,
    transport: context.transport,
    workers: context.workers,
    node: process.version,
    durationMs: Math.round(performance.now() - started),
    rssMb: Math.round(process.memoryUsage.rss() / 1_048_576),
    ...outcome,
  };
}

function targetsOf(scenario: Scenario, transport: TransportName): readonly Target[] {
  return transport === 'rabbitmq' ? (scenario.rabbitmqTargets ?? []) : scenario.targets;
}

export function judge(scenario: Scenario, result: BenchObject): Verdict[] {
  return targetsOf(scenario, result.transport).map(({ field, atLeast, atMost }) => {
    const measured = Number(result[field]);
    const met =
      (atLeast === undefined || measured >= atLeast) && (atMost === undefined || measured <= atMost);
    return { field, bound: atLeast !== undefined ? `≥ ${atLeast}` : `≤ ${atMost}`, measured, met };
  });
}
