#!/usr/bin/env node
import { Command } from 'commander';
import { version } from '../app/version.ts';
import { configCommand } from './commands/config.ts';
import { devCommand, startCommand } from './commands/start.ts';
import { demoCommand } from './commands/demo.ts';
import { benchCommand } from './commands/bench.ts';
import { doctorCommand } from './commands/doctor.ts';
import { listenCommand } from './commands/listen.ts';
import { bootstrapTokenCommand, migrateCommand } from './commands/database.ts';
import { replayCommand } from './commands/replay.ts';
import { secretsCommand } from './commands/secrets.ts';
import { sendCommand } from './commands/send.ts';
import { tailCommand } from './commands/tail.ts';
import { reportFailure } from './failure.ts';

// Name look-ups run on libuv's thread pool, four threads by default: a few slow resolvers would hold up every new connection.
process.env['UV_THREADPOOL_SIZE'] ??= '32';

const program = new Command('relayops')
  .description('Events in, signed HTTP deliveries out, nothing lost.')
  .version(version)
  .showHelpAfterError()
  .enablePositionalOptions();

for (const command of [
  startCommand(),
  devCommand(),
  demoCommand(),
  migrateCommand(),
  bootstrapTokenCommand(),
  sendCommand(),
  listenCommand(),
  tailCommand(),
  replayCommand(),
  doctorCommand(),
  benchCommand(),
  secretsCommand(),
  configCommand(),
]) {
  program.addCommand(command);
}

try {
  await program.parseAsync();
} catch (error) {
  process.exitCode = reportFailure(error);
}
