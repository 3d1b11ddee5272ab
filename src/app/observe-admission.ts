import type { AdmissionSample } from '../events/index.ts';
import type { Metrics } from '../platform/telemetry/metrics.ts';
import type { Messaging } from './transport.ts';

/** Metrics of each sample of what is waiting. */
export function observeAdmission(metrics: Metrics): (sample: AdmissionSample) => void {
  return ({ open, leased, failed, dead, outbox, gates, tenantsOver }) => {
    metrics.backlog.set({ state: 'pending' }, open - leased);
    metrics.backlog.set({ state: 'in_progress' }, leased);
    metrics.dead.set({ state: 'failed' }, failed);
    metrics.dead.set({ state: 'dead' }, dead);
    metrics.outboxMessages.set(outbox);
    for (const { name, full } of gates) metrics.intakeClosed.set({ why: name }, full ? 1 : 0);
    metrics.intakeClosed.set({ why: 'tenants' }, tenantsOver);
  };
}

/** Messages in the ready queue, and the depths of all queues for the metrics. Null while the broker cannot be asked. */
export async function readyMessages({ transport }: Messaging, metrics: Metrics): Promise<number | null> {
  if (!transport.state().publishing) return null;
  try {
    const depths = await transport.depths();
    for (const [queue, count] of Object.entries(depths)) metrics.brokerQueueMessages.set({ queue }, count);
    return depths.ready;
  } catch {
    // The connection went away meanwhile, or a queue did: the link sees to that, and says so itself.
    return null;
  }
}
