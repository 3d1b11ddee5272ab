import type { Queryable } from '../platform/db/database.ts';
import { plannedEachTime } from '../platform/db/sql.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';

/** Where counting stops: a number for a person, not worth a scan of millions of rows. */
export const COUNT_BOUND = 50_000;

export interface StatsRow {
  readonly from_at: Date;
  readonly to_at: Date;
  readonly events: number;
  readonly states: Record<string, number>;
  readonly counted: number;
  readonly open: number;
  readonly oldest_due_at: Date | null;
}

const stats = plannedEachTime(`
  WITH bounds AS (SELECT now() - $2 * interval '1 minute' AS from_at, now() AS to_at),
  recent AS MATERIALIZED (
    SELECT d.state FROM relayops.deliveries d, bounds b
    WHERE d.tenant_id = $1 AND d.event_id >= relayops.first_id_at(b.from_at) AND ($3::uuid IS NULL OR d.endpoint_id = $3)
    ORDER BY d.event_id DESC LIMIT $4
  ), lanes AS (
    SELECT endpoint_id FROM relayops.webhook_endpoints WHERE tenant_id = $1 AND ($3::uuid IS NULL OR endpoint_id = $3)
  )
  SELECT b.from_at, b.to_at,
    (SELECT count(*)::int FROM (SELECT 1 FROM relayops.events e
      WHERE e.tenant_id = $1 AND e.event_id >= relayops.first_id_at(b.from_at) LIMIT $4) x) AS events,
    (SELECT count(*)::int FROM recent) AS counted,
    coalesce((SELECT json_object_agg(state, n) FROM (SELECT state, count(*)::int AS n FROM recent GROUP BY state) s), '{}') AS states,
    (SELECT count(*)::int FROM (SELECT 1 FROM lanes l JOIN relayops.delivery_work w USING (endpoint_id) LIMIT $4) x) AS open,
    (SELECT min(f.due_at) FROM lanes l CROSS JOIN LATERAL (
      SELECT w.due_at FROM relayops.delivery_work w WHERE w.endpoint_id = l.endpoint_id ORDER BY w.due_at LIMIT 1) f) AS oldest_due_at
  FROM bounds b`);

/** Bounded counts of one tenant. Indexes: primary keys by tenant and time, delivery_work_due. */
export async function tenantStats(
  db: Queryable,
  tenantId: TenantId,
  minutes: number,
  endpointId: EndpointId | null,
): Promise<StatsRow> {
  const { rows } = await db.query<StatsRow>(stats([tenantId, minutes, endpointId, COUNT_BOUND + 1]));
  return rows[0]!;
}
