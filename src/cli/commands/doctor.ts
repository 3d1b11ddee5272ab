import { Command } from 'commander';
import { type Finding, runChecks } from '../../app/doctor.ts';
import { EXIT } from '../failure.ts';
import { emit, table } from '../output.ts';

export function doctorCommand(): Command {
  return new Command('doctor')
    .description('Check configuration, database, schema, clocks and what holds back vacuum; says what to do')
    .option('--json', 'print one JSON object')
    .action(async (options: { json?: boolean }) => {
      const findings = await runChecks(process.env);
      const rows = findings.map(({ check, status, detail, remedy }) => [
        status,
        check,
        detail,
        status === 'ok' ? '' : remedy,
      ]);
      emit(options, { findings }, table(['', 'check', 'finding', 'what to do'], rows));
      if (findings.some((finding: Finding) => finding.status === 'failed')) process.exitCode = EXIT.failed;
    });
}
