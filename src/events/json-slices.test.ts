import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import { arrayElements, objectMembers } from './json-slices.ts';

const slice = (text: string, name: string) => {
  const bytes = Buffer.from(text);
  const { start, end } = objectMembers(bytes).get(name)!;
  return bytes.toString('utf8', start, end);
};

describe('objectMembers', () => {
  it.each([
    ['{"payload":{"b":1, "a":  2}}', '{"b":1, "a":  2}'],
    ['{ "x" : [1,{"payload":0}] ,\n"payload"\t:\r\n 1.50e+10 }', '1.50e+10'],
    ['{"payload":12345678901234567890123}', '12345678901234567890123'],
    ['{"payload":"a\\\\\\"}{"}', '"a\\\\\\"}{"'],
    ['{"pay\\u006coad":"\\u2028\u2028"}', '"\\u2028\u2028"'],
    ['{"payload":1,"payload":[2, 3]}', '[2, 3]'],
    ['{"payload":null,"type":"x"}', 'null'],
  ])('finds the bytes of the payload in %s', (text, expected) => {
    expect(slice(text, 'payload')).toBe(expected);
  });

  it('agrees with JSON.parse on every object, however it is written', () => {
    fc.assert(
      fc.property(
        fc.dictionary(fc.string(), fc.jsonValue()),
        fc.constantFrom(0, 1, '\t', ' \n'),
        (object, indent) => {
          const text = Buffer.from(JSON.stringify(object, null, indent));
          const parsed = JSON.parse(text.toString()) as Record<string, unknown>;
          const members = objectMembers(text);
          expect([...members.keys()].sort()).toEqual(Object.keys(parsed).sort());
          for (const [name, { start, end }] of members)
            expect(JSON.parse(text.toString('utf8', start, end))).toEqual(parsed[name]);
        },
      ),
    );
  });
});

describe('arrayElements', () => {
  it('agrees with JSON.parse on every array', () => {
    fc.assert(
      fc.property(fc.array(fc.jsonValue()), fc.constantFrom(0, 2), (array, indent) => {
        const text = Buffer.from(JSON.stringify(array, null, indent));
        const elements = arrayElements(text).map(
          ({ start, end }) => JSON.parse(text.toString('utf8', start, end)) as unknown,
        );
        expect(elements).toEqual(JSON.parse(text.toString()));
      }),
    );
  });
});
