const RFC_3339 = /^(\d{4})-(\d{2})-(\d{2})T(\d{2}):(\d{2}):(\d{2})(?:\.\d{1,9})?(?:Z|[+-](\d{2}):(\d{2}))$/;
const FIRST_MS = Date.parse('0001-01-01T00:00:00Z');
const AFTER_LAST_MS = Date.parse('+010000-01-01T00:00:00Z');

/**
 * Milliseconds since the epoch of an RFC 3339 time (section 5.6), or null: a date that is not in the calendar, a leap second (which the
 * database would move to another minute) and years outside 0001 to 9999 in UTC are none.
 */
export function parseMoment(text: string): number | null {
  const upper = text.toUpperCase();
  const match = RFC_3339.exec(upper);
  if (match === null) return null;
  const [year, month, day, hour, minute, second, offsetHour = 0, offsetMinute = 0] = match
    .slice(1)
    .map((part) => (part === undefined ? 0 : Number(part))) as [number, number, number, ...number[]];
  if (month < 1 || month > 12 || day < 1 || day > daysIn(year, month)) return null;
  if (hour! > 23 || minute! > 59 || second! > 59 || offsetHour > 23 || offsetMinute > 59) return null;
  const ms = Date.parse(upper);
  return ms >= FIRST_MS && ms < AFTER_LAST_MS ? ms : null;
}

function daysIn(year: number, month: number): number {
  if (month === 2) return year % 4 === 0 && (year % 100 !== 0 || year % 400 === 0) ? 29 : 28;
  return [4, 6, 9, 11].includes(month) ? 30 : 31;
}
