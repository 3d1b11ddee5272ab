import { Command } from 'commander';
export function benchCommand(): Command {
  return new Command('bench');
}
