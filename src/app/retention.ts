import type { Config } from '../config/index.ts';
import type { JanitorTask } from '../delivery/index.ts';
import { findDeletedEndpointIds, type SecretBox, sealPlainHeaders } from '../endpoints/index.ts';
import { deleteExpiredKeys } from '../events/index.ts';
import { removeMessagesBefore } from '../outbox/index.ts';
import type { Database } from '../platform/db/database.ts';
import { type EndpointId, firstIdAt } from '../shared/ids.ts';
import { deleteExpiredTokens } from '../tenants/index.ts';

/** What other features want removed, each by its own owner; the janitor paces it. */
export function retentionTasks(database: Database, transport: Config['transport']): JanitorTask[] {
  const leftovers: JanitorTask[] =
    transport === 'rabbitmq'
      ? []
      : [{ what: 'outbox_messages', run: (limit) => deleteUnpublished(database, limit) }];
  return [
    ...leftovers,
    { what: 'idempotency_keys', run: (limit) => deleteExpiredKeys(database.requests, limit) },
    { what: 'auth_tokens', run: (limit) => deleteExpiredTokens(database.requests, limit) },
  ];
}

/** Their rows are locked meanwhile. */
const SEAL_BATCH = 100;

/** Headers that the version before has written, or writes while it runs beside this one. */
export function sealingTask(database: Database, box: SecretBox): JanitorTask {
  const run = async (limit: number): Promise<number> => {
    for (let sealed = 0; ;) {
      const batch = Math.min(SEAL_BATCH, limit - sealed);
      const count = await sealPlainHeaders(database, box, batch);
      sealed += count;
      if (count < batch || sealed === limit) return sealed;
    }
  };
  return { what: 'plain_headers', run };
}

/** During a rolling change of the transport other processes may still publish. */
const UNPUBLISHED_MS = 3_600_000;

/** Messages from before this installation went back to the PostgreSQL transport: their deliveries are claimed without them. */
function deleteUnpublished(database: Database, limit: number): Promise<number> {
  return removeMessagesBefore(database.requests, firstIdAt(Date.now() - UNPUBLISHED_MS), limit);
}

const PAGE = 1_000;

/** Every endpoint that was ever deleted: few, and the look for open work of one is a probe of an index. */
export async function allDeletedEndpoints(database: Database): Promise<EndpointId[]> {
  const all: EndpointId[] = [];
  for (;;) {
    const page = await findDeletedEndpointIds(database.requests, PAGE, all.at(-1));
    all.push(...page);
    if (page.length < PAGE) return all;
  }
}
