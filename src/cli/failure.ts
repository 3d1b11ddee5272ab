import { ConfigError } from '../config/index.ts';
import { describeError } from '../platform/telemetry/logger.ts';
import { RelayError } from '../shared/errors.ts';
import { ApiProblem } from './api-client.ts';

/** Exit codes: what a script can tell apart. */
export const EXIT = { ok: 0, failed: 1, usage: 2, unavailable: 3 } as const;

/** Writes what went wrong for a person, with what to do, and answers the exit code. */
export function reportFailure(error: unknown): number {
  if (error instanceof ConfigError) {
    write(error.message);
    return EXIT.usage;
  }
  if (error instanceof ApiProblem) {
    write(`${error.code}: ${error.message}\n  ${error.fix}`);
    return error.status === 503 ? EXIT.unavailable : EXIT.failed;
  }
  if (error instanceof RelayError) {
    write(`${error.code}: ${error.message}\n  ${error.definition.fix}`);
    return EXIT.failed;
  }
  const { type, message, code, stack, cause } = describeError(error);
  write(`${type}: ${message}${code ? ` (${code})` : ''}${cause ? `\n  because: ${cause.message}` : ''}`);
  if (process.env['DEBUG']) write(stack ?? '');
  return EXIT.failed;
}

function write(text: string): void {
  process.stderr.write(text + '\n');
}
