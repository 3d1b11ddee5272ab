import { parseMoment } from '../../shared/moment.ts';
import { requestInvalid } from './problem.ts';

/**
 * Milliseconds since the epoch of a time in a request. The schema's `date-time` lets through what no clock shows, such as second 60.
 * @param field where it stands, as in the schema's own problems: `querystring/from`
 * @throws REQUEST_INVALID
 */
export function momentOf(text: string, field: string): number {
  const ms = parseMoment(text);
  if (ms !== null) return ms;
  throw requestInvalid({
    fields: [
      { field, reason: 'is not an RFC 3339 time that exists', fix: 'Send for example 2026-01-31T12:00:00Z.' },
    ],
  });
}
