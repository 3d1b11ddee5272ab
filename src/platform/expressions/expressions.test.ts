import { describe, expect, it } from 'vitest';
import { compileFilter, ExpressionError, MAX_EXPRESSION_LENGTH, parseForExpressions } from './index.ts';

const event = { id: '0190aaaa-0000-7000-8000-000000000001', type: 'order.paid' };
const matches = (source: string, json: string) =>
  compileFilter(source).matches({ event, payload: parseForExpressions(json) });

describe('filters', () => {
  it.each([
    ['payload.amount > 100', '{"amount":101}', true],
    ['payload.amount > 100', '{"amount":100}', false],
    ['payload.amount > 100', '{"amount":100.5}', true],
    ['payload.id == 9007199254740993', '{"id":9007199254740993}', true],
    ['payload.id == 9007199254740993', '{"id":9007199254740992}', false],
    ['event.type.startsWith("order.") && payload.vip', '{"vip":true}', true],
    ['payload.tags.exists(t, t == "a")', '{"tags":["b","a"]}', true],
    ['has(payload.missing)', '{}', false],
    // A filter does not depend on how a number was written, or on what a member is called.
    ['payload.price * payload.qty > 100.0', '{"price":30.5,"qty":4}', true],
    ['payload.price * payload.qty > 100.0', '{"price":30,"qty":4}', true],
    ['payload.price * payload.qty > 100.0', '{"price":3e1,"qty":4.0}', true],
    ['payload.price + payload.tax > 100', '{"price":99.0,"tax":2}', true],
    ['payload.price + payload.tax > 100', '{"price":99.5,"tax":2}', true],
    ['payload.price - 0.5 < 99', '{"price":99}', true],
    ['payload.n / 2 == 2.5', '{"n":5}', true],
    ['payload.n / 2 == 2.5', '{"n":5.0}', true],
    ['payload.n % 2 == 1', '{"n":5}', true],
    ['payload.n % 2.5 == 0', '{"n":5}', true],
    ['payload.id + 1 == 9007199254740994', '{"id":9007199254740993}', true],
    ['payload.id + payload.n > 9007199254740994', '{"id":9007199254740993,"n":2}', true],
    ['size(payload.tags) * payload.price > 3', '{"tags":[1,2],"price":2.5}', true],
    ['payload.ok == true', '{"ok":true,"constructor":1}', true],
    ['payload.constructor == 1', '{"constructor":1}', true],
    ['payload.a.constructor.b == 1', '{"a":{"constructor":{"b":1}}}', true],
    ['payload.con == 1', '{"con":1,"\\u0063onstructor":[]}', true],
    ['payload["__proto__"] == 1', '{"__proto__":1}', true],
    ['payload.toString == 1 && payload.hasOwnProperty == 2', '{"toString":1,"hasOwnProperty":2}', true],
    ['has(payload.toString) || "valueOf" in payload', '{}', false],
  ])('%s on %s is %s', (source, json, expected) => {
    expect(matches(source, json)).toBe(expected);
  });

  it.each([
    'payload.amount >',
    'unknown_name == 1',
    '1 + 1',
    '"text"',
    'process.exit()',
    'x'.repeat(MAX_EXPRESSION_LENGTH + 1),
  ])('refuses %j when it is saved', (source) => {
    expect(() => compileFilter(source)).toThrow(ExpressionError);
  });

  it.each([
    ['payload.missing == 1', '{}'],
    ['payload.amount', '{"amount":3}'],
    ['payload.a.b.c == 1', '{"a":null}'],
  ])('says that %s cannot be evaluated on %s, instead of guessing', (source, json) => {
    expect(() => matches(source, json)).toThrow(ExpressionError);
  });

  it('does not reach JavaScript', () => {
    for (const source of ['payload.constructor == 1', 'payload.__proto__ == 1', 'payload.toString() == ""']) {
      expect(() => matches(source, '{}'), source).toThrow(ExpressionError);
    }
  });

  it.each([
    'payload.a.matches("^(a+)+$")',
    'payload.a.exists(x, payload.b.exists(y, x == y))',
    'payload.a.map(x, payload.b.filter(y, y == x)).size() > 0',
    'payload.a.exists(x, x) || payload.a.exists(x, x) || payload.a.exists(x, x) || payload.a.exists(x, x) || payload.a.exists(x, x)',
  ])('refuses %j, which could hold up acceptance', (source) => {
    expect(() => compileFilter(source)).toThrow(ExpressionError);
  });

  it('lets macros follow each other', () => {
    expect(matches('payload.a.filter(x, x > 1).exists(x, x == 3)', '{"a":[1,2,3]}')).toBe(true);
  });

  it('bounds nesting', () => {
    expect(() => compileFilter('('.repeat(500) + 'true' + ')'.repeat(500))).toThrow(ExpressionError);
  });
});
