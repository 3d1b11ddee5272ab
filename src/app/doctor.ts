import { loadConfig, ConfigError, type Config } from '../config/index.ts';
import { askBroker } from '../platform/amqp/ask.ts';
import type { Database } from '../platform/db/database.ts';
import { readMigrations } from '../platform/db/migrate.ts';
import { parseAllowList } from '../platform/http/address-guard.ts';
import { askRedis } from '../platform/redis/ask.ts';
import { openSmallDatabase } from './accounts.ts';
import { openInstallation } from './installation.ts';
import { projectFile } from './paths.ts';
import { FOREIGN_KEY_REMEDY, foreignKey, knownSealingState } from './sealing.ts';

/** One thing that was looked at. */
export interface Finding {
  readonly check: string;
  readonly status: 'ok' | 'warning' | 'failed';
  readonly detail: string;
  readonly remedy: string;
}

type Check = (database: Database, config: Config) => Promise<Omit<Finding, 'check'>>;

const MIN_POSTGRES = 140_000;
const CLOCK_SKEW_WARNING_MS = 500;
const HELD_SNAPSHOT_WARNING_S = 300;
const DAYS_AHEAD_WARNING = 7;

/** Looks at everything that a first day goes wrong by. Changes nothing. */
export async function runChecks(
  environment: Readonly<Record<string, string | undefined>>,
): Promise<Finding[]> {
  const configuration = checkConfiguration(environment);
  if (configuration.status === 'failed') return [configuration];
  let installation;
  try {
    installation = await openInstallation(environment);
  } catch (error) {
    return [
      configuration,
      failed(
        'database',
        (error as Error).message,
        'Set what it names, or unset the database URL for the embedded server.',
      ),
    ];
  }
  const { config } = installation;
  const database = openSmallDatabase(config, 'doctor');
  try {
    const findings = [configuration];
    for (const [check, look] of Object.entries(databaseChecks))
      findings.push(await guarded(check, () => look(database, config)));
    if (config.transport === 'rabbitmq')
      findings.push(await guarded('rabbitmq', () => checkRabbitMq(config), WITHOUT_RABBITMQ));
    if (config.coordination === 'redis')
      findings.push(await guarded('redis', () => checkRedis(config), WITHOUT_REDIS));
    return findings;
  } finally {
    await database.close();
    await installation.close();
  }
}

function checkConfiguration(environment: Readonly<Record<string, string | undefined>>): Finding {
  try {
    const config = loadConfig(environment);
    parseAllowList(config['delivery.allowAddresses']);
    return { check: 'configuration', status: 'ok', detail: 'every key is valid', remedy: '' };
  } catch (error) {
    const remedy =
      error instanceof ConfigError
        ? 'Correct the variables named; `relayops config print` lists all.'
        : 'Correct delivery.allowAddresses.';
    return failed('configuration', (error as Error).message, remedy);
  }
}

const MIN_RABBITMQ = [3, 10];
const MIN_REDIS = [6, 2];
const WITHOUT_RABBITMQ =
  'Correct rabbitmq.url, or start the broker; until then deliveries are taken from the database.';
const WITHOUT_REDIS =
  'Correct redis.url, or start the server; until then each process takes its share of the limits.';

async function checkRabbitMq(config: Config): Promise<Omit<Finding, 'check'>> {
  const { product, version } = await askBroker(config['rabbitmq.url']);
  const isFit = product === 'RabbitMQ' && isAtLeast(version, MIN_RABBITMQ);
  return judged(isFit, `${product} ${version}`, 'Use RabbitMQ 3.10 or newer.', 'failed');
}

async function checkRedis(config: Config): Promise<Omit<Finding, 'check'>> {
  const { version, maxMemoryPolicy, clusterEnabled } = await askRedis(config['redis.url']);
  const detail = `Redis ${version}${clusterEnabled ? ', cluster' : ''}, ${maxMemoryPolicy}`;
  if (!isAtLeast(version, MIN_REDIS)) return { status: 'failed', detail, remedy: 'Use Redis 6.2 or newer.' };
  if (clusterEnabled !== config['redis.cluster'])
    return { status: 'failed', detail, remedy: `Set redis.cluster to ${clusterEnabled}.` };
  const remedy = 'Set maxmemory-policy to noeviction: what is evicted is a limit forgotten.';
  return judged(maxMemoryPolicy === 'noeviction', detail, remedy, 'warning');
}

function isAtLeast(version: string, [major = 0, minor = 0]: readonly number[]): boolean {
  const [theirMajor = 0, theirMinor = 0] = version.split('.').map(Number);
  return theirMajor > major || (theirMajor === major && theirMinor >= minor);
}

async function checkSealingKey(database: Database, config: Config): Promise<Omit<Finding, 'check'>> {
  const state = await knownSealingState(database, config);
  switch (state.state) {
    case 'absent':
      return { status: 'ok', detail: 'nothing is sealed yet', remedy: '' };
    case 'current':
      return { status: 'ok', detail: `key ID ${state.keyId}`, remedy: '' };
    case 'previous': {
      const detail = `sealed with a previous key (ID ${state.keyId})`;
      return { status: 'warning', detail, remedy: 'Run `relayops secrets reseal`.' };
    }
    case 'foreign':
      return {
        status: 'failed',
        detail: `secrets.key ${foreignKey(state, config)}`,
        remedy: FOREIGN_KEY_REMEDY,
      };
  }
}

const databaseChecks: Readonly<Record<string, Check>> = {
  'postgresql version': async (database) => {
    const { rows } = await database.requests.query<{ number: number; text: string }>(
      "SELECT current_setting('server_version_num')::int AS number, current_setting('server_version') AS text",
    );
    const { number, text } = rows[0]!;
    return judged(number >= MIN_POSTGRES, text, 'Use PostgreSQL 14 or newer.', 'failed');
  },
  durability: async (database) => {
    const { rows } = await database.requests.query<{ fsync: string; commit: string }>(
      "SELECT current_setting('fsync') AS fsync, current_setting('synchronous_commit') AS commit",
    );
    const { fsync, commit } = rows[0]!;
    return judged(
      fsync === 'on' && commit !== 'off',
      `fsync ${fsync}, synchronous_commit ${commit}`,
      'Switch both on: an accepted event must survive a crash.',
      'failed',
    );
  },
  schema: async (database) => {
    const known = await readMigrations(projectFile('migrations'));
    const exists = await database.requests.query<{ found: string | null }>(
      "SELECT to_regclass('relayops.schema_migrations')::text AS found",
    );
    if (exists.rows[0]?.found == null)
      return {
        status: 'warning',
        detail: 'no schema yet',
        remedy: 'Run `relayops migrate`, or start: it does so itself.',
      };
    const { rows } = await database.requests.query<{ version: number }>(
      'SELECT coalesce(max(version), 0) AS version FROM relayops.schema_migrations',
    );
    const version = rows[0]!.version;
    return judged(
      // A newer one that cannot be worked with refuses the start, and says so.
      version >= known.length,
      `version ${version} of ${known.length}`,
      'Run `relayops migrate`.',
      'warning',
    );
  },
  'sealing key': checkSealingKey,
  'partitions ahead': async (database) => {
    const { rows } = await database.requests.query<{ days: number | null }>(`
      SELECT extract(epoch FROM max(to_timestamp(('x' || left(replace((regexp_match(pg_get_expr(c.relpartbound, c.oid), 'TO \\(''(.*?)''\\)'))[1], '-', ''), 12))::bit(48)::bigint / 1000.0)) - now())::float8 / 86400 AS days
      FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid WHERE i.inhparent = to_regclass('relayops.events')`);
    const days = rows[0]?.days ?? 0;
    return judged(
      days > DAYS_AHEAD_WARNING,
      `${days.toFixed(1)} days`,
      'Start a process with role worker or all: its janitor makes them.',
      'warning',
    );
  },
  clock: async (database) => {
    const before = Date.now();
    const { rows } = await database.requests.query<{ now: Date }>('SELECT clock_timestamp() AS now');
    const skewMs = Math.round(rows[0]!.now.getTime() - (before + Date.now()) / 2);
    return judged(
      Math.abs(skewMs) < CLOCK_SKEW_WARNING_MS,
      `${skewMs} ms from the database`,
      'Synchronise the clocks (NTP): event IDs carry this machine’s time.',
      'warning',
    );
  },
  'held snapshots': async (database) => {
    const { rows } = await database.requests.query<{ pid: number; name: string; seconds: number }>(`
      SELECT pid, coalesce(nullif(application_name, ''), usename) AS name, extract(epoch FROM now() - xact_start)::int AS seconds
      FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid() ORDER BY xact_start NULLS LAST LIMIT 1`);
    const oldest = rows[0];
    const detail = oldest
      ? `oldest: ${oldest.name} (process ${oldest.pid}) for ${oldest.seconds ?? 0} s`
      : 'none';
    return judged(
      (oldest?.seconds ?? 0) < HELD_SNAPSHOT_WARNING_S,
      detail,
      'End that session: vacuum cannot remove finished work while it holds its snapshot.',
      'warning',
    );
  },
  connections: async (database, config) => {
    const { rows } = await database.requests.query<{ max: number; used: number }>(
      "SELECT current_setting('max_connections')::int AS max, (SELECT count(*)::int FROM pg_stat_activity WHERE backend_type = 'client backend') AS used",
    );
    const { max, used } = rows[0]!;
    const needed =
      config['database.poolSize'] +
      config['database.acceptancePoolSize'] +
      config['database.deliveryPoolSize'] +
      1;
    return judged(
      max - used >= needed,
      `${used} of ${max} used, one process needs ${needed}`,
      'Raise max_connections, or lower database.poolSize.',
      'warning',
    );
  },
};

const WITHOUT_DATABASE = 'Check that the database runs and that its URL and password are right.';

async function guarded(
  check: string,
  look: () => Promise<Omit<Finding, 'check'>>,
  remedy = WITHOUT_DATABASE,
): Promise<Finding> {
  try {
    return { check, ...(await look()) };
  } catch (error) {
    return failed(check, (error as Error).message, remedy);
  }
}

function judged(
  good: boolean,
  detail: string,
  remedy: string,
  otherwise: 'warning' | 'failed',
): Omit<Finding, 'check'> {
  return { status: good ? 'ok' : otherwise, detail, remedy };
}

function failed(check: string, detail: string, remedy: string): Finding {
  return { check, status: 'failed', detail, remedy };
}
