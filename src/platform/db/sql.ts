import { createHash } from 'node:crypto';
import type { Statement } from './database.ts';

/**
 * A prepared statement: its text is fixed, its name is derived from it, so that PostgreSQL parses it once a connection.
 * Values are always parameters; there is no interpolation.
 */
export function prepared(text: string): (values: unknown[]) => Statement {
  const name = 'r' + createHash('sha1').update(text).digest('hex').slice(0, 20);
  return (values) => ({ name, text, values });
}

/**
 * A statement that is planned anew each time, with its values: for lists whose optional filters change which index is right. A
 * generic plan would have to serve `type IS NULL` and `type = 'x'` alike.
 */
export function plannedEachTime(text: string): (values: unknown[]) => Statement {
  return (values) => ({ text, values });
}

/**
 * A PostgreSQL array literal of values that need no quoting (UUIDs, numbers, booleans, ISO times). Joining is ten times
 * cheaper than the driver's general array encoding, which matters in statements of hundreds of rows.
 */
export function plainArray(values: readonly (string | number | boolean | null)[]): string {
  let text = '{';
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    text += (i === 0 ? '' : ',') + (value === null ? 'NULL' : String(value));
  }
  return text + '}';
}

/** A PostgreSQL array literal of free text; null stays null. */
export function textArray(values: readonly (string | null | undefined)[]): string {
  let text = '{';
  for (let i = 0; i < values.length; i++) {
    const value = values[i];
    text += i === 0 ? '' : ',';
    text += value == null ? 'NULL' : `"${/["\\]/.test(value) ? value.replace(/["\\]/g, '\\$&') : value}"`;
  }
  return text + '}';
}
