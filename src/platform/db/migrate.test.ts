import { randomBytes } from 'node:crypto';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import pg from 'pg';
import { afterEach, beforeEach, describe, expect, inject, it } from 'vitest';
import { migrate } from './migrate.ts';

let folder: string;
let name: string;
let url: string;

beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'relayops-migrations-'));
  name = `migrate_${randomBytes(6).toString('hex')}`;
  url = inject('postgresUrl').replace(/\/postgres$/, `/${name}`);
  await sql(inject('postgresUrl'), `CREATE DATABASE ${name}`);
  await write('0001_first.sql', 'CREATE TABLE relayops.first (n int); INSERT INTO relayops.first VALUES (1)');
});
afterEach(async () => {
  await sql(inject('postgresUrl'), `DROP DATABASE ${name}`);
  await rm(folder, { recursive: true });
});

const write = (file: string, text: string): Promise<void> => writeFile(path.join(folder, file), text);

async function sql(at: string, text: string): Promise<unknown[]> {
  const client = new pg.Client({ connectionString: at });
  await client.connect();
  try {
    return (await client.query<Record<string, unknown>>(text)).rows;
  } finally {
    await client.end();
  }
}

describe('migrating', () => {
  it('by several processes at once applies each migration once (SPEC A4)', async () => {
    await write('0002_second.sql', 'UPDATE relayops.first SET n = n + 1');
    const applied = await Promise.all(Array.from({ length: 6 }, () => migrate(url, folder)));
    expect(applied.flat()).toEqual(['first', 'second']);
    expect(await sql(url, 'SELECT n FROM relayops.first')).toEqual([{ n: 2 }]);
    expect(await sql(url, 'SELECT version FROM relayops.schema_migrations ORDER BY 1')).toEqual([
      { version: 1 },
      { version: 2 },
    ]);
  });

  it('refuses a migration whose text has changed since, and changes nothing', async () => {
    await migrate(url, folder);
    await write('0001_first.sql', 'CREATE TABLE relayops.other (n int)');
    await write('0002_second.sql', 'DROP TABLE relayops.first');
    await expect(migrate(url, folder)).rejects.toThrow('migration first was applied with another text');
    expect(await sql(url, 'SELECT n FROM relayops.first')).toEqual([{ n: 1 }]);
  });

  describe('on a database of a newer version', () => {
    /** What a newer version applied, seen by the version whose files are left. */
    async function applied(newer: Readonly<Record<string, string>>): Promise<string[]> {
      for (const [file, text] of Object.entries(newer)) await write(file, text);
      await migrate(url, folder);
      for (const file of Object.keys(newer)) await rm(path.join(folder, file));
      return migrate(url, folder);
    }

    it('runs beside it when each newer migration says that it may', async () => {
      const newer = {
        '0002_second.sql': '-- Adds a column.\n-- runs-with: 1\nALTER TABLE relayops.first ADD COLUMN m int;',
        '0003_third.sql': '-- runs-with: 1\nALTER TABLE relayops.first ADD COLUMN l int;',
      };
      expect(await applied(newer)).toEqual([]);
    });

    it('refuses to when one of them does not', async () => {
      const newer = {
        '0002_second.sql': '-- runs-with: 1\nALTER TABLE relayops.first ADD COLUMN m int;',
        '0003_third.sql': '-- runs-with: 2\nALTER TABLE relayops.first DROP COLUMN n;',
      };
      await expect(applied(newer)).rejects.toThrow(
        'has migration 3, which this version does not know and cannot run with',
      );
    });

    it.each(['SELECT 1', 'SELECT 1 -- runs-with: 1'])(
      'refuses to when one of them does not say so in a line of its own: %s',
      async (text) => {
        await expect(applied({ '0002_second.sql': text })).rejects.toThrow(
          'has migration 2, which this version does not know',
        );
      },
    );
  });

  it('rolls back one that fails, keeps those before it, and goes on from there', async () => {
    await write('0002_second.sql', 'UPDATE relayops.first SET n = 7; SELECT 1 / 0');
    await expect(migrate(url, folder)).rejects.toThrow('migration 2 (second) failed and was rolled back');
    expect(await sql(url, 'SELECT n FROM relayops.first')).toEqual([{ n: 1 }]);
    await write('0002_second.sql', 'UPDATE relayops.first SET n = 7');
    expect(await migrate(url, folder)).toEqual(['second']);
    expect(await sql(url, 'SELECT n FROM relayops.first')).toEqual([{ n: 7 }]);
  });
});
