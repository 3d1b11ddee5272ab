import { execFileSync } from 'node:child_process';
import { mkdir, writeFile } from 'node:fs/promises';
import { Argument, Command, Option } from 'commander';
import { projectFile, projectRoot } from '../../app/paths.ts';
import { renderPlot, renderReport, shareOfTarget } from '../../bench/report.ts';
import { type BenchObject, judge, runScenario, scenarios, type Verdict } from '../../bench/run.ts';
import type { Scenario, TransportName } from '../../bench/scenario.ts';
import { EXIT } from '../failure.ts';
import { emit, table } from '../output.ts';
import { type Progress, startProgress } from '../progress.ts';

interface BenchOptions {
  readonly json?: boolean;
  readonly report?: boolean;
  readonly scale: string;
  readonly transport: TransportName;
  readonly workers: string;
}

export function benchCommand(): Command {
  return new Command('bench')
    .description('Measure one scenario, or all with --report; a run that loses a delivery exits non-zero')
    .addArgument(new Argument('[scenario]', 'what to measure').choices(scenarios.map(({ name }) => name)))
    .addOption(
      new Option(
        '--transport <name>',
        'transport under test; rabbitmq brings RabbitMQ and Redis up for the run',
      )
        .choices(['postgres', 'rabbitmq'])
        .default('postgres'),
    )
    .option('--workers <count>', 'worker processes (drain only)', '1')
    .option('--json', 'print one JSON object as the last line')
    .option('--report', 'run all and write bench/report.md with its plot')
    .option('--scale <share>', 'share of the full size, for a quick look; its figures are no claim', '1')
    .action(async (name: string | undefined, options: BenchOptions) => {
      if (options.report) return reportAll(options);
      const scenario = scenarios.find((candidate) => candidate.name === name);
      if (scenario === undefined) {
        emit(
          {},
          null,
          table(
            ['scenario', 'what it does'],
            scenarios.map(({ name: title, text }) => [title, text]),
          ),
        );
        return;
      }
      const object = await run(scenario, options);
      emit(options, object, describe(scenario, object));
    });
}

async function run(scenario: Scenario, options: BenchOptions): Promise<BenchObject> {
  let current: { phase: string; progress: Progress } | undefined;
  const object = await runScenario(scenario, {
    scale: Number(options.scale),
    transport: options.transport,
    workers: scenario.name === 'drain' ? Number(options.workers) : 1,
    progress: (phase, done, total) => {
      if (current?.phase !== phase) {
        current?.progress.stop();
        current = {
          phase,
          progress: startProgress(`${scenario.name}: ${phase}`.padEnd(28), Math.ceil(total)),
        };
      }
      current.progress.update(Math.round(done));
    },
  });
  current?.progress.stop();
  if (object.lost !== 0) process.exitCode = EXIT.failed;
  return object;
}

function describe(scenario: Scenario, object: BenchObject): string {
  const verdicts = judge(scenario, object);
  const facts = table(['', ''], Object.entries(object));
  return [
    facts,
    ...verdicts.map((v) => `${v.field} ${v.measured} (target ${v.bound}): ${v.met ? 'met' : 'MISSED'}`),
  ].join('\n');
}

async function reportAll(options: BenchOptions): Promise<void> {
  const results: { object: BenchObject; verdicts: Verdict[]; text: string }[] = [];
  for (const scenario of scenarios) {
    const object = await run(scenario, options);
    results.push({ object, verdicts: judge(scenario, object), text: scenario.text });
  }
  const rows = results.flatMap(({ object, verdicts }) =>
    verdicts.map((verdict) => ({
      label: `${object.scenario} ${verdict.field}`,
      share: shareOfTarget(verdict),
      met: verdict.met,
    })),
  );
  await mkdir(projectFile('bench'), { recursive: true });
  await writeFile(projectFile('bench', 'report.md'), renderReport(results, currentCommit()));
  await writeFile(projectFile('bench', 'report.svg'), renderPlot(rows));
  emit(
    options,
    results.map(({ object }) => object),
    `Written to ${projectFile('bench', 'report.md')}.`,
  );
}

function currentCommit(): string {
  try {
    return execFileSync('git', ['rev-parse', '--short', 'HEAD'], {
      cwd: projectRoot,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    }).trim();
  } catch {
    // A published package has no history; the report says so instead of failing after an hour of measuring.
    return 'unknown';
  }
}
