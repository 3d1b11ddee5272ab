/**
 * The simulator as a process of its own: prints one line `{"url": …}` when it listens and ends on SIGTERM or SIGINT, or with its
 * parent when it was forked.
 *
 *   node src/simulator/main.ts [--host 127.0.0.1] [--port 0] [--keep 1000] [--max-deliveries 2000000] [--no-verify]
 */
import { parseArgs } from 'node:util';
import { startSimulator } from './simulator.ts';

const { values } = parseArgs({
  options: {
    host: { type: 'string', default: '127.0.0.1' },
    port: { type: 'string', default: '0' },
    keep: { type: 'string', default: '1000' },
    'max-deliveries': { type: 'string', default: '2000000' },
    verify: { type: 'boolean', default: true },
  },
  allowNegative: true,
});

function wholeNumber(name: 'port' | 'keep' | 'max-deliveries'): number {
  if (!/^\d{1,9}$/.test(values[name])) throw new RangeError(`--${name} is not a whole number`);
  return Number(values[name]);
}

const simulator = await startSimulator({
  host: values.host,
  port: wholeNumber('port'),
  keep: wholeNumber('keep'),
  maxDeliveries: wholeNumber('max-deliveries'),
  verify: values.verify,
});

const stop = (): void => {
  void simulator.close().then(() => {
    if (process.connected) process.disconnect();
  });
};
process.once('SIGTERM', stop);
process.once('SIGINT', stop);
process.once('disconnect', stop);
process.stdout.write(`${JSON.stringify({ url: simulator.url })}\n`);
