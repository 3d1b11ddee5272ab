import { Command } from 'commander';
import { openInstallation } from '../../app/installation.ts';
import { projectFile } from '../../app/paths.ts';
import { reseal } from '../../app/sealing.ts';
import { migrate } from '../../platform/db/migrate.ts';
import { EXIT } from '../failure.ts';
import { emit } from '../output.ts';
import { type Progress, startProgress } from '../progress.ts';

export function secretsCommand(): Command {
  const command = new Command('secrets').description('Signing secrets and header values at rest');
  command
    .command('reseal')
    .description(
      'Seal everything with secrets.key that a key in secrets.previousKeys opens; safe beside running processes, and to repeat',
    )
    .option('--json', 'print one JSON object')
    .action(resealCommand);
  return command;
}

async function resealCommand(options: { json?: boolean }): Promise<void> {
  const installation = await openInstallation(process.env);
  let progress: Progress | undefined;
  try {
    await migrate(installation.config['database.url'], projectFile('migrations'));
    const result = await reseal(installation.config, (done, total) => {
      progress ??= startProgress('endpoints', Math.max(total, 1));
      progress.update(done);
    });
    progress?.stop();
    const lines = [
      `Resealed: ${result.resealed}. Already sealed with secrets.key: ${result.current}. Cannot be opened: ${result.unopenable}.`,
    ];
    if (result.unopenable > 0)
      lines.push(
        `Their key is not configured. Add it to secrets.previousKeys and repeat, or rotate the secret and send the headers of these endpoints again: ${result.unopenableEndpoints.join(', ')}`,
      );
    emit(options, result, lines.join('\n'));
    if (result.unopenable > 0) process.exitCode = EXIT.failed;
  } finally {
    progress?.stop();
    await installation.close();
  }
}
