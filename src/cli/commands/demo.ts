import { Command, Option } from 'commander';
import { type DemoResult, type ReceiverResult, runDemo } from '../../demo/demo.ts';
import { type DemoSystem, openEmbeddedSystem, openFleet } from '../../demo/system.ts';
import { startSimulator } from '../../simulator/index.ts';
import { ApiClient } from '../api-client.ts';
import { EXIT } from '../failure.ts';
import { emit, table } from '../output.ts';
import { startProgress, type Progress } from '../progress.ts';

export function demoCommand(): Command {
  return new Command('demo')
    .description(
      "Send GitHub's 329 published webhook payloads through the whole system to six receivers, and check the result",
    )
    .addOption(
      new Option(
        '--transport <name>',
        'rabbitmq: the same with RabbitMQ, Redis, two API processes and three workers, all started for it',
      )
        .choices(['postgres', 'rabbitmq'])
        .default('postgres'),
    )
    .option('--json', 'print one JSON object as the last line')
    .action(async (options: { json?: boolean; transport: 'postgres' | 'rabbitmq' }) => {
      const { result, receivers } = await demoOnFreshSystem(options.transport);
      emit(options, result, report(result, receivers));
      if (!isGood(result)) process.exitCode = EXIT.failed;
    });
}

async function demoOnFreshSystem(
  transport: 'postgres' | 'rabbitmq',
): Promise<{ result: DemoResult; receivers: ReceiverResult[] }> {
  const simulator = await startSimulator();
  const progress = phases();
  let system: DemoSystem | undefined;
  try {
    const receiverPort = Number(new URL(simulator.url).port);
    progress.show('starting', 0, 1);
    system = await (transport === 'rabbitmq' ? openFleet(receiverPort) : openEmbeddedSystem(receiverPort));
    return await runDemo({
      api: new ApiClient(system.url, system.apiKey),
      simulator,
      attempts: () => system!.attempts(),
      onProgress: progress.show,
    });
  } finally {
    progress.stop();
    await system?.close();
    await simulator.close();
  }
}

/** A progress bar for each phase, one after the other. */
function phases(): { show: (phase: string, done: number, total: number) => void; stop: () => void } {
  let current: { phase: string; progress: Progress } | undefined;
  return {
    show: (phase, done, total) => {
      if (current?.phase !== phase) {
        current?.progress.stop();
        current = { phase, progress: startProgress(phase.padEnd(16), total) };
      }
      current.progress.update(done);
    },
    stop: () => current?.progress.stop(),
  };
}

function isGood(result: DemoResult): boolean {
  return (
    result.lost === 0 &&
    result.signatureFailures === 0 &&
    result.succeeded + result.failed === result.deliveries
  );
}

function report(result: DemoResult, receivers: readonly ReceiverResult[]): string {
  const rows = receivers.map((receiver) => [
    receiver.name,
    receiver.text,
    receiver.requests,
    receiver.delivered,
    receiver.wrongBytes,
  ]);
  const facts = Object.entries(result).map(([name, value]) => [name, value] as const);
  const verdict = isGood(result)
    ? `Every one of ${result.accepted} events reached its receivers with the exact bytes sent.`
    : 'NOT as it should be: see the numbers above.';
  return [
    table(['receiver', 'behaviour', 'requests', 'events held', 'wrong bytes'], rows),
    table(['', ''], facts),
    verdict,
  ].join('\n');
}
