import type { AttemptReport } from '../delivery/index.ts';
import type { Logger } from '../platform/telemetry/logger.ts';
import type { Metrics } from '../platform/telemetry/metrics.ts';
import type { Clock } from '../shared/clock.ts';

/** Metrics and the one canonical log line of each attempt: every ID, the outcome and the decision; no payload, no secret (SPEC J2). */
export function observeAttempt(
  metrics: Metrics,
  logger: Logger,
  clock: Clock,
): (report: AttemptReport) => void {
  return ({ work, judgement, httpStatus, errorCode, durationMs }) => {
    const { outcome, disposition } = judgement;
    metrics.attempts.inc({ outcome: outcome.kind });
    metrics.attemptSeconds.observe({ outcome: outcome.kind }, durationMs / 1000);
    if (disposition.kind !== 'retry') metrics.deliveriesEnded.inc({ state: disposition.kind });
    if (outcome.kind === 'success' && work.attemptNumber === 1) {
      metrics.acceptToDeliveredSeconds.observe(Math.max(0, clock.now() - work.acceptedAtMs) / 1000);
    }
    // The fields are only gathered when the line is written: at 10,000 attempts a second this matters.
    if (!logger.isLevelEnabled('info')) return;
    logger.info(
      {
        tenant_id: work.tenantId,
        event_id: work.eventId,
        event_type: work.eventType,
        delivery_id: work.deliveryId,
        endpoint_id: work.endpointId,
        attempt: work.attemptNumber,
        outcome: outcome.kind,
        decision: disposition.kind,
        ...(disposition.kind === 'retry' ? { retry_in_ms: disposition.delayMs } : {}),
        http_status: httpStatus,
        error: errorCode,
        latency_ms: Math.round(durationMs * 10) / 10,
        ...(work.traceparent === null ? {} : { traceparent: work.traceparent }),
      },
      'delivery attempted',
    );
  };
}
