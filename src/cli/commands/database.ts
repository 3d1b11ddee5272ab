import { Command } from 'commander';
import { openInstallation } from '../../app/installation.ts';
import { projectFile } from '../../app/paths.ts';
import { Database } from '../../platform/db/database.ts';
import { migrate } from '../../platform/db/migrate.ts';
import { createBootstrapToken } from '../../tenants/index.ts';
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
      const installation = await openInstallation(process.env);
      const { config } = installation;
      const database = new Database({
        url: config['database.url'],
        poolSize: 1,
        acceptancePoolSize: 2,
        deliveryPoolSize: 3,
        connectTimeoutMs: config['database.connectTimeoutMs'],
        statementTimeoutMs: config['database.statementTimeoutMs'],
        applicationName: 'relayops:bootstrap-token',
        onIdleError: (error) => process.stderr.write(`${error.message}\n`),
      });
      try {
        await migrate(config['database.url'], projectFile('migrations'));
        const token = await createBootstrapToken(database.requests, {
          ttlS: Number(options.hours) * 3600,
          note: options.note,
        });
        emit(options, { token, hours: Number(options.hours) }, token);
      } finally {
        await database.close();
        await installation.close();
      }
    });
}
