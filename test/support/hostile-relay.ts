/** A relay in a process of its own that says how long its event loop was held. Started by test/e2e/hostile-tenants.test.ts. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import { startProcess } from '../../src/app/process.ts';
import { loadConfig } from '../../src/config/index.ts';
import { createLogger } from '../../src/platform/telemetry/logger.ts';

const config = loadConfig(process.env);
const relay = await startProcess(config, createLogger(config['log.level'], { service: 'hostile' }));
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
process.on('message', () => {
  process.send!({ delayMs: Math.round(delay.max / 1e6) });
  delay.reset();
});
process.once('SIGTERM', () => {
  process.disconnect();
  void relay.stop();
});
process.send!({ url: relay.url });
