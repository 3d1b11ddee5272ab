import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { JsonError, JsonReader, JsonTooDeepError, JsonTooLongError } from './json-reader.ts';

function isJson(text: string): boolean {
  const reader = new JsonReader(Buffer.from(text));
  try {
    reader.readValue();
    reader.readEnd();
    return true;
  } catch (error) {
    expect(error).toBeInstanceOf(JsonError);
    return false;
  }
}

function isJsonForParse(text: string): boolean {
  try {
    JSON.parse(text);
    return true;
  } catch {
    return false;
  }
}

/** Members of an object by name, as texts. */
function members(text: string): Map<string, string> {
  const bytes = Buffer.from(text);
  const reader = new JsonReader(bytes);
  const found = new Map<string, string>();
  reader.readObject((name) => {
    const value = reader.readValue();
    found.set(
      JSON.parse(bytes.toString('utf8', name.start, name.end)) as string,
      bytes.toString('utf8', value.start, value.end),
    );
  });
  reader.readEnd();
  return found;
}

describe('JsonReader', () => {
  it.each([
    ['{"payload":{"b":1, "a":  2}}', '{"b":1, "a":  2}'],
    ['{ "x" : [1,{"payload":0}] ,\n"payload"\t:\r\n 1.50e+10 }', '1.50e+10'],
    ['{"payload":12345678901234567890123}', '12345678901234567890123'],
    ['{"payload":"a\\\\\\"}{"}', '"a\\\\\\"}{"'],
    ['{"pay\\u006coad":"\\u2028\u2028"}', '"\\u2028\u2028"'],
    ['{"payload":1,"payload":[2, 3]}', '[2, 3]'],
    ['{"payload":null,"type":"x"}', 'null'],
  ])('finds the bytes of the payload in %s', (text, expected) => {
    expect(members(text).get('payload')).toBe(expected);
  });

  it.each([
    '',
    ' ',
    '{',
    '}',
    '[',
    '[1,]',
    '[,1]',
    '[1 2]',
    '{"a"}',
    '{"a":}',
    '{"a":1,}',
    '{a:1}',
    "{'a':1}",
    '1 2',
    '[]]',
    '01',
    '-',
    '-01',
    '1.',
    '.5',
    '1e',
    '1e+',
    '+1',
    '0x1',
    'NaN',
    'Infinity',
    'tru',
    'truex',
    'nul',
    'TRUE',
    '"a',
    '"\\',
    '"\\x"',
    '"\\u12"',
    '"\\u12g4"',
    '"\n"',
    '"\u0000"',
    '\u00a0 1',
    '\ufeff1',
    '{"a":1 "b":2}',
    '[1]extra',
    '{"a":1}}',
    '"\\u',
    '"\\u1',
    '[1',
    '{"a"',
    '{"a":',
    '{"a":1',
    '{"a":1,',
    '-e1',
    '1e1.5',
    '/**/1',
    '[[]',
    '{"\n":1}',
  ])('refuses %j, as JSON.parse does', (text) => {
    expect(isJsonForParse(text)).toBe(false);
    expect(isJson(text)).toBe(false);
  });

  it('agrees with JSON.parse on every value, however it is written', () => {
    fc.assert(
      fc.property(fc.jsonValue(), fc.constantFrom(0, 1, '\t', ' \n'), (value, indent) => {
        expect(isJson(JSON.stringify(value, null, indent))).toBe(true);
      }),
    );
  });

  it('agrees with JSON.parse on texts that are nearly JSON', () => {
    const piece = fc.constantFrom(
      ...[
        '{',
        '}',
        '[',
        ']',
        ',',
        ':',
        '"',
        '\\',
        'u',
        '0',
        '1',
        '9',
        '-',
        '+',
        '.',
        'e',
        'E',
        'a',
        'true',
        'null',
      ],
      ...['"a"', '"b":', ' ', '\n', '1.5', '\u0001', 'é', '\\u00e9', '\\n'],
    );
    const spoilt = fc
      .tuple(fc.json(), fc.nat(), fc.nat(3), piece)
      .map(
        ([text, at, cut, put]) =>
          text.slice(0, at % (text.length + 1)) + put + text.slice((at % (text.length + 1)) + cut),
      );
    const text = fc.oneof(
      fc.array(piece, { maxLength: 12 }).map((pieces) => pieces.join('')),
      spoilt,
    );
    fc.assert(
      fc.property(text, (candidate) => {
        expect(isJson(candidate)).toBe(isJsonForParse(candidate));
      }),
      { numRuns: 3_000 },
    );
  });

  it('finds members and elements where JSON.parse finds them', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom(0, 1, '\t'),
        (object, indent) => {
          const text = JSON.stringify(object, null, indent);
          const parsed = JSON.parse(text) as Record<string, unknown>;
          const found = members(text);
          expect([...found.keys()].sort()).toEqual(Object.keys(parsed).sort());
          for (const [name, value] of found) expect(JSON.parse(value)).toEqual(parsed[name]);
        },
      ),
    );
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), (array) => {
        const bytes = Buffer.from(JSON.stringify(array));
        const reader = new JsonReader(bytes);
        const elements: unknown[] = [];
        for (let more = reader.enterArray(); more; more = reader.nextElement()) {
          const { start, end } = reader.readValue();
          elements.push(JSON.parse(bytes.toString('utf8', start, end)));
        }
        expect(elements).toEqual(JSON.parse(bytes.toString()));
      }),
    );
  });

  it('goes down as far as it was told, and no further', () => {
    const nested = (depth: number) => new JsonReader(Buffer.from('['.repeat(depth) + ']'.repeat(depth)), 5);
    expect(() => nested(5).readValue()).not.toThrow();
    expect(() => nested(6).readValue()).toThrow(/nested deeper than 5 levels/);
    // Refused at the byte that goes too deep: four million levels cost no more than six.
    const endless = new JsonReader(Buffer.alloc(4_000_000, '['));
    expect(() => endless.readValue()).toThrow(JsonTooDeepError);
    expect(endless.at).toBe(128);
  });

  it('stops at a value that is too long, and goes on with it in pieces', () => {
    const text = Buffer.from(`[${'[1],'.repeat(1_000)}2]  `);
    const reader = new JsonReader(text);
    expect(() => reader.readValue(100)).toThrow(JsonTooLongError);
    let pieces = 0;
    let slice;
    while ((slice = reader.continueValue(100)) === undefined) pieces += 1;
    expect(slice).toEqual({ start: 0, end: text.length - 2 });
    expect(pieces).toBeGreaterThan(20);
    const scalar = new JsonReader(Buffer.from('"0123456789"'));
    expect(() => scalar.readValue(5)).toThrow(JsonTooLongError);
    expect(scalar.continueValue(1)).toEqual({ start: 0, end: 12 });
  });
});
