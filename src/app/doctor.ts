import { loadConfig, ConfigError, type Config } from '../config/index.ts';
import type { Database } from '../platform/db/database.ts';
import { readMigrations } from '../platform/db/migrate.ts';
import { parseAllowList } from '../platform/http/address-guard.ts';
import { openSmallDatabase } from './accounts.ts';
import { openInstallation } from './installation.ts';
import { projectFile } from './paths.ts';

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
      version === known.length,
      `version ${version} of ${known.length}`,
      'Run `relayops migrate`.',
      'warning',
    );
  },
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

async function guarded(check: string, look: () => Promise<Omit<Finding, 'check'>>): Promise<Finding> {
  try {
    return { check, ...(await look()) };
  } catch (error) {
    return failed(
      check,
      (error as Error).message,
      'Check that the database runs and that its URL and password are right.',
    );
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
