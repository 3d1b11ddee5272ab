import type { Queryable } from '../platform/db/database.ts';
import { prepared } from '../platform/db/sql.ts';
import type { TenantId } from '../shared/ids.ts';

/** Work and leftovers as of the last sample. */
export interface BacklogSample {
  readonly open: number;
  readonly leased: number;
  readonly failed: number;
  readonly dead: number;
}

/** Counting further would cost more than it tells: above it the statistics' estimate is used, or the bound is shown. */
const EXACT_UP_TO = 20_000;

const sample = prepared(`
  WITH work AS MATERIALIZED (SELECT coalesce(lease_until > now(), false) AS leased FROM relayops.delivery_work LIMIT ${EXACT_UP_TO}),
       ended AS MATERIALIZED (SELECT state FROM relayops.deliveries WHERE unsuccessful_at IS NOT NULL LIMIT ${EXACT_UP_TO})
  SELECT (SELECT count(*)::int FROM work) AS counted,
         (SELECT count(*)::int FROM work WHERE leased) AS leased,
         (SELECT count(*)::int FROM ended WHERE state = 'failed') AS failed,
         (SELECT count(*)::int FROM ended WHERE state = 'dead') AS dead,
         coalesce((SELECT n_live_tup FROM pg_stat_user_tables
                   WHERE schemaname = 'relayops' AND relname = 'delivery_work'), 0)::float8 AS estimated`);

/** Exact up to a bound, then the statistics' estimate, which lags by a second or so. Index: deliveries_unsuccessful. */
export async function sampleBacklog(db: Queryable): Promise<BacklogSample> {
  const { rows } = await db.query<BacklogSample & { counted: number; estimated: number }>(sample([]));
  const { counted, estimated, leased, failed, dead } = rows[0]!;
  return {
    open: counted < EXACT_UP_TO ? counted : Math.max(counted, Math.round(estimated)),
    leased,
    failed,
    dead,
  };
}

const exactShares = prepared(`
  SELECT tenant_id, count(*)::int AS open FROM (SELECT tenant_id FROM relayops.delivery_work LIMIT ${EXACT_UP_TO}) w GROUP BY 1`);

const sampledShares = prepared(`
  SELECT tenant_id, count(*)::int AS open FROM relayops.delivery_work TABLESAMPLE SYSTEM ($1::float8) GROUP BY 1`);

/**
 * Open deliveries by tenant. Exact up to a bound; above it from a sample of the table's pages that holds about as many rows, scaled up, which
 * is right within a few per cent for tenants that hold much.
 * @param open all open deliveries, as sampled
 */
export async function sampleTenants(db: Queryable, open: number): Promise<ReadonlyMap<TenantId, number>> {
  const scale = open <= EXACT_UP_TO ? 1 : open / EXACT_UP_TO;
  const statement = scale === 1 ? exactShares([]) : sampledShares([100 / scale]);
  const { rows } = await db.query<{ tenant_id: TenantId; open: number }>(statement);
  return new Map(rows.map((row) => [row.tenant_id, Math.round(row.open * scale)]));
}
