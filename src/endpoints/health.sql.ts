import type { Queryable } from '../platform/db/database.ts';
import { plainArray, prepared } from '../platform/db/sql.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';

/** What the attempts of one batch say about an endpoint. Answers that say nothing of its health (429) are not in it. */
export interface ObservedHealth {
  readonly tenantId: TenantId;
  readonly endpointId: EndpointId;
  readonly succeeded: boolean;
  /** Failed attempts of any kind. */
  readonly failures: number;
  /** Those that say that the receiver is out of order. */
  readonly outages: number;
}

export interface HealthRules {
  /** Outages in a row that open the breaker, and how long they must have lasted. */
  readonly failuresToOpen: number;
  readonly minFailingMs: number;
  /** Pause before the first probe; doubled with each that fails, up to the cap. */
  readonly openMs: number;
  readonly openCapMs: number;
  /** Nothing but failures for this long disables the endpoint. */
  readonly disableAfterS: number;
}

export type HealthChange = 'opened' | 'probe_failed' | 'closed' | 'disabled';

/**
 * Counts outcomes, over all processes (SPEC D11). One success closes the breaker and forgets all failures. Enough outages in a row open it;
 * one more after its pause (that was the probe) opens it for longer. After a set time of nothing but failures the endpoint is disabled. What the
 * tenant subscribes to hear of is noted in the same statement.
 *
 * Index: primary keys, and webhook_endpoints_tenant, which an empty table's plan may prefer: hence the tenant. Rows are written in the order of their IDs, so that two processes cannot deadlock. `before` locks what the others change, so
 * that each change is reported by one of them.
 */
const observe = prepared(`
  WITH seen AS MATERIALIZED (
    SELECT * FROM unnest($1::uuid[], $2::bool[], $3::int[], $4::int[], $10::uuid[]) AS s (endpoint_id, succeeded, failures, outages, tenant_id)
  ), before AS MATERIALIZED (
    SELECT h.endpoint_id, h.failures, h.failing_since, h.open_until
    FROM seen s CROSS JOIN LATERAL (
      SELECT * FROM relayops.endpoint_health o WHERE o.endpoint_id = s.endpoint_id LIMIT 1 FOR UPDATE) h
  ), closed AS (
    DELETE FROM relayops.endpoint_health h USING seen s
    WHERE s.succeeded AND h.endpoint_id BETWEEN s.endpoint_id AND s.endpoint_id
    RETURNING h.endpoint_id, s.tenant_id, h.open_until IS NOT NULL AS was_open, h.failures, h.failing_since
  ), failing AS (
    INSERT INTO relayops.endpoint_health AS h (endpoint_id, failures, outages, failing_since)
    SELECT endpoint_id, failures, outages, now() FROM seen WHERE NOT succeeded ORDER BY endpoint_id
    ON CONFLICT (endpoint_id) DO UPDATE SET
      failures = h.failures + excluded.failures,
      outages = h.outages + excluded.outages,
      opened = CASE WHEN relayops.breaker_opens(h, excluded.outages, $5, $6) THEN h.opened + 1 ELSE h.opened END,
      open_until = CASE WHEN relayops.breaker_opens(h, excluded.outages, $5, $6)
        THEN now() + least($8::float8, $7::float8 * power(2, least(h.opened, 30))) * interval '1 ms' ELSE h.open_until END,
      probe_until = CASE WHEN relayops.breaker_opens(h, excluded.outages, $5, $6) THEN NULL ELSE h.probe_until END
    RETURNING h.endpoint_id, h.failures, h.failing_since, h.open_until
  ), disabled AS (
    UPDATE relayops.webhook_endpoints e
    SET state = 'disabled', state_reason = 'Nothing but failed attempts since ' || to_char(f.failing_since AT TIME ZONE 'UTC', 'YYYY-MM-DD HH24:MI') || ' UTC.',
        version = version + 1, updated_at = now()
    FROM failing f CROSS JOIN LATERAL (SELECT tenant_id FROM seen o WHERE o.endpoint_id = f.endpoint_id LIMIT 1) s
    WHERE e.tenant_id = s.tenant_id AND e.endpoint_id BETWEEN f.endpoint_id AND f.endpoint_id AND e.state = 'active' AND e.deleted_at IS NULL
      AND f.failures >= $5 AND f.failing_since <= now() - $9 * interval '1 s'
    RETURNING e.endpoint_id, e.tenant_id, e.name, e.url, e.state_reason, f.failing_since, f.failures
  ), notices AS (
    INSERT INTO relayops.operational_notices (tenant_id, type, endpoint_id, data)
    SELECT tenant_id, 'endpoint.disabled', endpoint_id, jsonb_build_object('endpointId', endpoint_id, 'name', name, 'url', url,
             'reason', state_reason, 'failingSince', relayops.iso(failing_since), 'failures', failures, 'disabledAt', relayops.iso(now()))
    FROM disabled WHERE relayops.wants_notice(tenant_id, 'endpoint.disabled', endpoint_id)
    UNION ALL
    SELECT e.tenant_id, 'endpoint.recovered', e.endpoint_id, jsonb_build_object('endpointId', e.endpoint_id, 'name', e.name, 'url', e.url,
             'failingSince', relayops.iso(c.failing_since), 'failures', c.failures, 'recoveredAt', relayops.iso(now()))
    FROM closed c CROSS JOIN LATERAL (SELECT * FROM relayops.webhook_endpoints w WHERE w.tenant_id = c.tenant_id AND w.endpoint_id = c.endpoint_id LIMIT 1) e
    WHERE c.was_open AND relayops.wants_notice(e.tenant_id, 'endpoint.recovered', e.endpoint_id)
  )
  SELECT endpoint_id, 'closed' AS change FROM closed WHERE was_open
  UNION ALL SELECT endpoint_id, 'disabled' FROM disabled
  UNION ALL
  SELECT f.endpoint_id, CASE WHEN b.open_until IS NULL THEN 'opened' ELSE 'probe_failed' END
  FROM failing f LEFT JOIN LATERAL (SELECT * FROM before o WHERE o.endpoint_id = f.endpoint_id LIMIT 1) b ON true
  WHERE f.open_until IS DISTINCT FROM b.open_until`);

/** @returns what changed with it, for the process that has to act on it */
export async function observeHealth(
  db: Queryable,
  observed: readonly ObservedHealth[],
  rules: HealthRules,
): Promise<{ endpoint_id: EndpointId; change: HealthChange }[]> {
  const result = await db.query<{ endpoint_id: EndpointId; change: HealthChange }>(
    observe([
      plainArray(observed.map((one) => one.endpointId)),
      plainArray(observed.map((one) => one.succeeded)),
      plainArray(observed.map((one) => one.failures)),
      plainArray(observed.map((one) => one.outages)),
      rules.failuresToOpen,
      rules.minFailingMs,
      rules.openMs,
      rules.openCapMs,
      rules.disableAfterS,
      plainArray(observed.map((one) => one.tenantId)),
    ]),
  );
  return result.rows;
}

const take = prepared(`
  UPDATE relayops.endpoint_health SET probe_until = now() + $2 * interval '1 ms'
  WHERE endpoint_id = $1 AND open_until <= now() AND (probe_until IS NULL OR probe_until <= now())`);

/** Asks to be the one process that sends the next probe. Index: primary key. @param ms until another may, should this one vanish */
export async function takeProbe(db: Queryable, endpointId: EndpointId, ms: number): Promise<boolean> {
  return (await db.query(take([endpointId, ms]))).rowCount === 1;
}

const giveBack = prepared(`UPDATE relayops.endpoint_health SET probe_until = NULL WHERE endpoint_id = $1`);

/** There was nothing to probe with. Index: primary key. */
export async function giveProbeBack(db: Queryable, endpointId: EndpointId): Promise<void> {
  await db.query(giveBack([endpointId]));
}

const forget = prepared(`DELETE FROM relayops.endpoint_health WHERE endpoint_id = $1`);

export async function forgetHealth(db: Queryable, endpointId: EndpointId): Promise<void> {
  await db.query(forget([endpointId]));
}

const sample = prepared(`
  SELECT (SELECT count(*)::int FROM relayops.endpoint_health WHERE open_until IS NOT NULL) AS open,
         count(*) FILTER (WHERE state = 'disabled')::int AS disabled, count(*) FILTER (WHERE state = 'paused')::int AS paused
  FROM relayops.webhook_endpoints WHERE state <> 'active' AND deleted_at IS NULL`);

/** Endpoints whose deliveries wait. Index: webhook_endpoints_waiting. */
export async function countHeldBack(
  db: Queryable,
): Promise<{ open: number; disabled: number; paused: number }> {
  return (await db.query<{ open: number; disabled: number; paused: number }>(sample([]))).rows[0]!;
}
