import { Command } from 'commander';
import { makeBootstrapToken } from '../../app/accounts.ts';
import { openInstallation } from '../../app/installation.ts';
import { projectFile } from '../../app/paths.ts';
import { migrate } from '../../platform/db/migrate.ts';
import { emit } from '../output.ts';

export function migrateCommand(): Command {
  return new Command('migrate')
    .description('Bring the database schema up to date; safe to run from several places at once')
    .option('--json', 'print one JSON object')
    .action(async (options: { json?: boolean }) => {
      const installation = await openInstallation(process.env);
      try {
        const applied = await migrate(installation.config['database.url'], projectFile('migrations'));
        emit(
          options,
          { applied },
          applied.length === 0 ? 'The schema is up to date.' : `Applied: ${applied.join(', ')}.`,
        );
      } finally {
        await installation.close();
      }
    });
}

const DEFAULT_TTL_HOURS = 24;

export function bootstrapTokenCommand(): Command {
  return new Command('bootstrap-token')
    .description('Make a token that lets one tenant sign up (POST /v1/signup); it is shown once')
    .option('--hours <n>', 'how long it may be used', String(DEFAULT_TTL_HOURS))
    .option('--note <text>', 'for whom it is', '')
    .option('--json', 'print one JSON object')
    .action(async (options: { hours: string; note: string; json?: boolean }) => {
      const hours = Number(options.hours);
      const installation = await openInstallation(process.env);
      try {
        const token = await makeBootstrapToken(installation.config, { hours, note: options.note });
        emit(options, { token, hours }, token);
      } finally {
        await installation.close();
      }
    });
}
