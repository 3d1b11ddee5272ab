import type { Queryable } from '../platform/db/database.ts';
import { plainArray, prepared } from '../platform/db/sql.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';

/** Something that happened to an endpoint or a delivery and that its tenant subscribes to hear of. */
export interface NoticeRow {
  readonly notice_id: string;
  readonly tenant_id: TenantId;
  readonly type: 'endpoint.disabled' | 'endpoint.recovered' | 'delivery.dead';
  /** The endpoint it is about. */
  readonly endpoint_id: EndpointId;
  readonly data: Record<string, unknown>;
  readonly noticed_at: Date;
}

const next = prepared(
  'SELECT * FROM relayops.operational_notices ORDER BY noticed_at LIMIT $1 FOR UPDATE SKIP LOCKED',
);

/** The oldest notices, locked for this transaction. Index: operational_notices_order. */
export async function lockNotices(db: Queryable, limit: number): Promise<NoticeRow[]> {
  return (await db.query<NoticeRow>(next([limit]))).rows;
}

const remove = prepared('DELETE FROM relayops.operational_notices WHERE notice_id = ANY($1::uuid[])');

export async function removeNotices(db: Queryable, noticeIds: readonly string[]): Promise<void> {
  await db.query(remove([plainArray(noticeIds)]));
}
