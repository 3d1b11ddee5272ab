import { expect, it } from 'vitest';
import { parseMoment } from './moment.ts';

it.each([
  ['2026-01-31T12:00:00Z', Date.UTC(2026, 0, 31, 12)],
  ['2026-01-31t12:00:00.123456789z', Date.UTC(2026, 0, 31, 12, 0, 0, 123)],
  ['2026-01-31T12:00:00+05:30', Date.UTC(2026, 0, 31, 6, 30)],
  ['2024-02-29T00:00:00Z', Date.UTC(2024, 1, 29)],
  ['2000-02-29T23:59:59-00:00', Date.UTC(2000, 1, 29, 23, 59, 59)],
  ['0001-01-01T00:00:00Z', -62_135_596_800_000],
  ['9999-12-31T23:59:59.999Z', 253_402_300_799_999],
])('%s is a moment', (text, ms) => expect(parseMoment(text)).toBe(ms));

it.each([
  ['the year 0', '0000-12-31T23:59:59Z'],
  ['the year 0 by its offset', '0001-01-01T00:00:00+00:01'],
  ['the year 10000 by its offset', '9999-12-31T23:59:59-01:00'],
  ['30 February', '2026-02-30T00:00:00Z'],
  ['29 February of a common year', '2026-02-29T00:00:00Z'],
  ['29 February of 1900', '1900-02-29T00:00:00Z'],
  ['31 April', '2026-04-31T00:00:00Z'],
  ['day 0', '2026-01-00T00:00:00Z'],
  ['month 13', '2026-13-01T00:00:00Z'],
  ['a leap second', '2016-12-31T23:59:60Z'],
  ['hour 24', '2026-01-01T24:00:00Z'],
  ['an offset of 24 hours', '2026-01-01T00:00:00+24:00'],
  ['no offset', '2026-01-01T00:00:00'],
  ['a space', '2026-01-01 00:00:00Z'],
  ['a date', '2026-01-01'],
  ['nothing', ''],
])('%s is none', (_what, text) => expect(parseMoment(text)).toBeNull());
