import type { Config } from '../config/index.ts';
import type { Database } from '../platform/db/database.ts';
import type { Clock } from '../shared/clock.ts';
import type { EndpointId, TenantId } from '../shared/ids.ts';
import type { EndpointDirectory } from './directory.ts';
import type { SecretBox } from './secret-box.ts';

export interface SecretRead {
  readonly tenantId: TenantId;
  readonly endpointId: EndpointId;
  readonly secretId: string;
  readonly actor: string;
}

/** What the services of this feature need. */
export interface EndpointsDeps {
  readonly database: Database;
  readonly config: Config;
  /** Makes IDs only; every deadline is the database's. */
  readonly clock: Clock;
  /** Told after each commit, so that a change counts at once in this process; others see it within a second. */
  readonly directory: EndpointDirectory;
  readonly secretBox: SecretBox;
  /** Somebody has read a signing secret: to be logged. */
  readonly onSecretRead: (read: SecretRead) => void;
  /** Called after the commit that made an endpoint active again: its waiting deliveries may be due. */
  readonly onWorkMayBeDue: (endpointId: EndpointId) => void;
}
