import { createHash } from 'node:crypto';
import { readdir, readFile } from 'node:fs/promises';
import path from 'node:path';
import pg from 'pg';

/** Any constant of our own will do; all migrating processes must agree on it. */
const MIGRATION_LOCK = 7_265_611_001;

export interface Migration {
  readonly version: number;
  readonly name: string;
  readonly checksum: string;
  readonly text: string;
  /** Oldest schema version whose software can run on a database that has this migration. */
  readonly runsWith: number;
}

/** A migration that only adds says so in a line of its own, and then the software of that version runs beside the newer one. */
const RUNS_WITH = /^-- runs-with: (\d+)$/m;

/** Reads `NNNN_name.sql` files in order. Throws on a gap or a repeated number. */
export async function readMigrations(folder: string): Promise<Migration[]> {
  const files = (await readdir(folder)).filter((file) => /^\d{4}_.+\.sql$/.test(file)).sort();
  const migrations = await Promise.all(
    files.map(async (file) => {
      const text = await readFile(path.join(folder, file), 'utf8');
      const checksum = createHash('sha256').update(text).digest('hex');
      const version = Number(file.slice(0, 4));
      const runsWith = Number(RUNS_WITH.exec(text)?.[1] ?? version);
      return { version, name: file.slice(5, -4), checksum, text, runsWith };
    }),
  );
  migrations.forEach((migration, index) => {
    if (migration.version !== index + 1)
      throw new Error(`migrations/: expected number ${index + 1}, found ${migration.version}`);
  });
  return migrations;
}

/**
 * Brings the schema up to date, one transaction a migration, under an advisory lock, so that several starting processes
 * cannot run one twice (SPEC A4). Refuses a database whose applied migrations differ from the files. One that has newer migrations is
 * fine when each of them says that this version's software runs with it, so that versions N and N+1 can work side by side.
 * @returns the names that were applied now
 */
export async function migrate(url: string, folder: string): Promise<string[]> {
  const migrations = await readMigrations(folder);
  const client = new pg.Client({ connectionString: url, application_name: 'relayops:migrate' });
  // A lost connection shows in the statement that follows; without a listener it would end the process.
  client.on('error', () => undefined);
  await client.connect();
  try {
    await client.query('SELECT pg_advisory_lock($1)', [MIGRATION_LOCK]);
    await client.query('CREATE SCHEMA IF NOT EXISTS relayops');
    await client.query(`CREATE TABLE IF NOT EXISTS relayops.schema_migrations (
      version integer PRIMARY KEY, name text NOT NULL, checksum text NOT NULL, applied_at timestamptz NOT NULL DEFAULT now(),
      runs_with integer)`);
    await client.query('ALTER TABLE relayops.schema_migrations ADD COLUMN IF NOT EXISTS runs_with integer');
    const { rows } = await client.query<AppliedMigration>(
      'SELECT version, checksum, runs_with FROM relayops.schema_migrations ORDER BY version',
    );
    for (const applied of rows) {
      const known = migrations[applied.version - 1];
      if (known === undefined) {
        if ((applied.runs_with ?? applied.version) <= migrations.length) continue;
        throw new Error(
          `the database has migration ${applied.version}, which this version does not know and cannot run with: start a newer RelayOps`,
        );
      }
      if (known.checksum !== applied.checksum)
        throw new Error(
          `migration ${known.name} was applied with another text: restore the file, and add a new migration instead`,
        );
    }
    const done: string[] = [];
    for (const migration of migrations.slice(rows.length)) {
      await applyOne(client, migration);
      done.push(migration.name);
    }
    return done;
  } finally {
    await client.end();
  }
}

interface AppliedMigration {
  readonly version: number;
  readonly checksum: string;
  /** Null on rows of before this was recorded: as its own version. */
  readonly runs_with: number | null;
}

async function applyOne(client: pg.Client, migration: Migration): Promise<void> {
  try {
    await client.query('BEGIN');
    await client.query(migration.text);
    await client.query(
      'INSERT INTO relayops.schema_migrations (version, name, checksum, runs_with) VALUES ($1, $2, $3, $4)',
      [migration.version, migration.name, migration.checksum, migration.runsWith],
    );
    await client.query('COMMIT');
  } catch (error) {
    await client.query('ROLLBACK');
    throw new Error(`migration ${migration.version} (${migration.name}) failed and was rolled back`, {
      cause: error,
    });
  }
}
