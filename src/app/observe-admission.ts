import type { AdmissionSample } from '../events/index.ts';
import type { Metrics } from '../platform/telemetry/metrics.ts';
import type { Messaging } from './transport.ts';

/** Metrics of each sample of what is waiting. */
export function observeAdmission(metrics: Metrics): (sample: AdmissionSample) => void {
  return ({ open, leased, failed, dead, outbox, heldBack, gates, tenantsOver }) => {
    metrics.backlog.set({ state: 'pending' }, open - leased);
    metrics.backlog.set({ state: 'in_progress' }, leased);
    metrics.dead.set({ state: 'failed' }, failed);
    metrics.dead.set({ state: 'dead' }, dead);
    metrics.outboxMessages.set(outbox);
    metrics.endpointsHeldBack.set({ why: 'breaker_open' }, heldBack.open);
    metrics.endpointsHeldBack.set({ why: 'disabled' }, heldBack.disabled);
    metrics.endpointsHeldBack.set({ why: 'paused' }, heldBack.paused);
    for (const { name, full } of gates) metrics.intakeClosed.set({ why: name }, full ? 1 : 0);
    metrics.intakeClosed.set({ why: 'tenants' }, tenantsOver);
  };
}

/** Messages in the ready queue, and the depths of all queues for the metrics. Null while the broker cannot be asked. */
export async function readyMessages({ transport }: Messaging, metrics: Metrics): Promise<number | null> {
  if (!transport.state().publishing) {
    metrics.brokerQueueMessages.reset();
    return null;
  }
  try {
    const depths = await transport.depths();
    for (const queue of ['ready', 'retry', 'dead'] as const)
      metrics.brokerQueueMessages.set({ queue }, depths[queue]);
    return depths.ready;
  } catch {
    metrics.brokerQueueMessages.reset();
    // The connection went away meanwhile, or a queue did: the link sees to that, and says so itself.
    return null;
  }
}
