import type { Queryable } from '../platform/db/database.ts';
import { digestOf, mintToken } from './secret-token.ts';
import {
  deleteExpiredBootstrapTokens,
  deleteExpiredPasswordResets,
  deleteExpiredRefreshTokens,
  insertBootstrapToken,
} from './token.sql.ts';

/**
 * Makes a token with which somebody may sign up one tenant, once, within `ttlS` seconds.
 * @returns the token, which is shown now and never again
 */
export async function createBootstrapToken(
  db: Queryable,
  { ttlS, note = '' }: { readonly ttlS: number; readonly note?: string },
): Promise<string> {
  const token = mintToken('bootstrap');
  await insertBootstrapToken(db, digestOf(token), note, ttlS);
  return token;
}

/**
 * One step of the janitor: removes refresh, bootstrap and password reset tokens that have expired, at most `limit` of each.
 * @returns how many were removed; when it is `limit` or more there may be others
 */
export async function deleteExpiredTokens(db: Queryable, limit: number): Promise<number> {
  const refresh = await deleteExpiredRefreshTokens(db, limit);
  const resets = await deleteExpiredPasswordResets(db, limit);
  return refresh + resets + (await deleteExpiredBootstrapTokens(db, limit));
}
