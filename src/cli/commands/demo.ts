import { rm } from 'node:fs/promises';
import path from 'node:path';
import { Command } from 'commander';
import { createTenantWithKey } from '../../app/accounts.ts';
import { openInstallation } from '../../app/installation.ts';
import { type RelayProcess, startProcess } from '../../app/process.ts';
import { type DemoResult, type ReceiverResult, runDemo } from '../../demo/demo.ts';
import { temporaryDataDir } from '../../platform/db/embedded.ts';
import { createLogger } from '../../platform/telemetry/logger.ts';
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
    .option('--json', 'print one JSON object as the last line')
    .action(async (options: { json?: boolean }) => {
      const { result, receivers } = await demoOnFreshSystem();
      emit(options, result, report(result, receivers));
      if (!isGood(result)) process.exitCode = EXIT.failed;
    });
}

/** On an embedded system of its own, thrown away afterwards. */
async function demoOnFreshSystem(): Promise<{ result: DemoResult; receivers: ReceiverResult[] }> {
  const home = path.join(temporaryDataDir('demo'));
  const simulator = await startSimulator();
  const installation = await openInstallation(
    {},
    {
      'database.dataDir': path.join(home, 'postgres'),
      'http.port': 0,
      'log.level': 'error',
      'delivery.allowAddresses': [`127.0.0.1/32:${new URL(simulator.url).port}`],
    },
  );
  let relay: RelayProcess | undefined;
  const progress = phases();
  try {
    relay = await startProcess(installation.config, createLogger('error', { service: 'relayops' }));
    const api = new ApiClient(relay.url, await createTenantWithKey(relay.runtime, 'Demo', 'demo'));
    return await runDemo({
      api,
      simulator,
      attempts: () => countAttempts(relay!),
      onProgress: progress.show,
    });
  } finally {
    progress.stop();
    await relay?.stop();
    await simulator.close();
    await installation.close();
    await rm(home, { recursive: true, force: true });
  }
}

async function countAttempts({ runtime }: RelayProcess): Promise<number> {
  const { values } = await runtime.metrics.attempts.get();
  return values.reduce((sum, { value }) => sum + value, 0);
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
