import { expect, it } from 'vitest';
import { momentOf } from './moment.ts';

it('is the time in milliseconds', () => {
  expect(momentOf('1970-01-01T00:00:01Z', 'querystring/from')).toBe(1_000);
});

it('refuses what the schema lets through and no clock shows, and names the field', () => {
  expect(() => momentOf('2016-12-31T23:59:60Z', 'querystring/from')).toThrow(
    expect.objectContaining({
      code: 'REQUEST_INVALID',
      occurrence: { fields: [expect.objectContaining({ field: 'querystring/from' })] },
    }),
  );
});
