import type { JanitorTask } from '../delivery/index.ts';
import { deleteExpiredKeys } from '../events/index.ts';
import type { Database } from '../platform/db/database.ts';
import { deleteExpiredTokens } from '../tenants/index.ts';

/** What other features want removed, each by its own owner; the janitor paces it. */
export function retentionTasks(database: Database): JanitorTask[] {
  return [
    { what: 'idempotency_keys', run: (limit) => deleteExpiredKeys(database.requests, limit) },
    { what: 'auth_tokens', run: (limit) => deleteExpiredTokens(database.requests, limit) },
  ];
}
