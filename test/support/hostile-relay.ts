/** A relay in a process of its own that says how long its event loop was held. Started by test/e2e/hostile-tenants.test.ts. */
import { monitorEventLoopDelay, PerformanceObserver } from 'node:perf_hooks';
import { startProcess } from '../../src/app/process.ts';
import { loadConfig } from '../../src/config/index.ts';
import { createLogger } from '../../src/platform/telemetry/logger.ts';

const config = loadConfig(process.env);
const relay = await startProcess(config, createLogger(config['log.level'], { service: 'hostile' }));
const delay = monitorEventLoopDelay({ resolution: 5 });
delay.enable();
let longestCollectionMs = 0;
new PerformanceObserver((list) => {
  for (const { duration } of list.getEntries()) longestCollectionMs = Math.max(longestCollectionMs, duration);
}).observe({ entryTypes: ['gc'] });
process.on('message', () => {
  process.send!({
    delayMs: ms(delay.percentile(99)),
    longestMs: ms(delay.max),
    collectionMs: Math.round(longestCollectionMs),
  });
  delay.reset();
  longestCollectionMs = 0;
});
function ms(nanoseconds: number): number {
  return Math.round(nanoseconds / 1e6);
}
process.once('SIGTERM', () => {
  process.disconnect();
  void relay.stop();
});
process.send!({ url: relay.url });
