import { Command } from 'commander';
import { describeConfig, loadConfig } from '../../config/index.ts';
import { emit, table } from '../output.ts';

export function configCommand(): Command {
  const command = new Command('config').description('Configuration');
  command
    .command('print')
    .description('Every key with the value in force; secrets are masked')
    .option('--json', 'print one JSON object')
    .action((options: { json?: boolean }) => {
      const rows = describeConfig(loadConfig(process.env));
      const shown = rows.map((row) => [
        row.key,
        row.environment,
        format(row.value),
        row.isDefault ? 'default' : 'set',
      ]);
      emit(
        options,
        Object.fromEntries(rows.map((row) => [row.key, row.value])),
        table(['key', 'environment', 'value', ''], shown),
      );
    });
  return command;
}

function format(value: unknown): string {
  if (Array.isArray(value)) return value.join(', ');
  return value === null ? '' : JSON.stringify(value).replace(/^"|"$/g, '');
}
