import { execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, writeFile } from 'node:fs/promises';
import { text as textOf } from 'node:stream/consumers';
import { Argument, Command, Option } from 'commander';
import { projectFile, projectRoot } from '../../app/paths.ts';
import { renderPlot, renderReport, shareOfTarget, titleOf } from '../../bench/report.ts';
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
    .option(
      '--report',
      'run all of the transport and write bench/report.md (report-rabbitmq.md) with its plot',
    )
    .option('--scale <share>', 'share of the full size, for a quick look; its figures are no claim', '1')
    .action(async (name: string | undefined, options: BenchOptions) => {
      const workers = Number(options.workers);
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
      const object = await run(scenario, options, scenario.name === 'drain' ? workers : 1);
      emit(options, object, describe(scenario, object));
    });
}

async function run(scenario: Scenario, options: BenchOptions, workers: number): Promise<BenchObject> {
  let current: { phase: string; progress: Progress } | undefined;
  const object = await runScenario(scenario, {
    scale: Number(options.scale),
    transport: options.transport,
    workers,
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
  for (const { scenario, workers } of reportedRuns(options.transport)) {
    const object = await runApart(scenario, options, workers);
    const text = workers === 1 ? scenario.text : `${scenario.text}, by ${workers} worker processes`;
    results.push({ object, verdicts: judge(scenario, object), text });
  }
  const rows = results.flatMap(({ object, verdicts }) =>
    verdicts.map((verdict) => ({
      label: `${titleOf(object)} ${verdict.field}`,
      share: shareOfTarget(verdict),
      met: verdict.met,
    })),
  );
  await mkdir(projectFile('bench'), { recursive: true });
  const name = options.transport === 'postgres' ? 'report' : `report-${options.transport}`;
  await writeFile(
    projectFile('bench', `${name}.md`),
    renderReport(results, currentCommit(), options.transport, `${name}.svg`),
  );
  await writeFile(projectFile('bench', `${name}.svg`), renderPlot(rows));
  emit(
    options,
    results.map(({ object }) => object),
    `Written to ${projectFile('bench', `${name}.md`)}.`,
  );
}

/**
 * A scenario in a process of its own, as when it is run alone: in one that has run others it would meet their heap and their compiled code. Progress goes
 * to this process's standard error.
 * @throws Error when it ends without its object
 */
async function runApart(scenario: Scenario, options: BenchOptions, workers: number): Promise<BenchObject> {
  const { transport, scale } = options;
  const args = ['--transport', transport, '--workers', String(workers), '--scale', scale, '--json'];
  const child = spawn(
    process.execPath,
    [...process.execArgv, process.argv[1]!, 'bench', scenario.name, ...args],
    { stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = once(child, 'exit') as Promise<[number | null]>;
  const [output, [exitCode]] = await Promise.all([textOf(child.stdout), ended]);
  const last = output.trimEnd().split('\n').at(-1) ?? '';
  if (exitCode !== 0) process.exitCode = EXIT.failed;
  if (!last.startsWith('{'))
    throw new Error(`bench ${scenario.name} ended with exit code ${exitCode} and no figures`);
  return JSON.parse(last) as BenchObject;
}

/** With a broker, those that TARGETS names for it, and drain by several processes as well. */
function reportedRuns(transport: TransportName): { scenario: Scenario; workers: number }[] {
  if (transport === 'postgres') return scenarios.map((scenario) => ({ scenario, workers: 1 }));
  return scenarios.flatMap((scenario) => {
    if (scenario.rabbitmqTargets === undefined) return [];
    const workers = scenario.name === 'drain' ? [1, 3] : [1];
    return workers.map((count) => ({ scenario, workers: count }));
  });
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
