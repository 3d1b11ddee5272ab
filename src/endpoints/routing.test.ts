import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EndpointId } from '../shared/ids.ts';
import { compileFilter } from '../platform/expressions/index.ts';
import { FilteredEvent } from './filtered-event.ts';
import { type JudgeElsewhere, type Route, RoutingTable, type SubscriptionRow } from './routing.ts';

const row = (endpointId: string, pattern: string, filter: string | null = null): SubscriptionRow => ({
  endpointId: endpointId as EndpointId,
  pattern,
  filter,
});
const unexpected: JudgeElsewhere = () => Promise.reject(new Error('nothing here should leave the thread'));
const event = (payload: unknown, type = 'order.paid') =>
  new FilteredEvent({ id: 'x', type }, Buffer.from(JSON.stringify(payload)));
/** Routes that need no other thread. */
const route = (
  rows: readonly SubscriptionRow[],
  type = 'order.paid',
  payload: unknown = { amount: 5 },
): readonly Route[] => {
  const routes = new RoutingTable(1, rows).route(type, event(payload, type), unexpected);
  if (routes instanceof Promise) throw new Error('something was judged elsewhere');
  return routes;
};

describe('routing', () => {
  it('sends an event once to each endpoint that subscribes to it', () => {
    const rows = [row('a', '*'), row('a', 'order.*'), row('b', 'order.paid'), row('c', 'order.sent')];
    expect(route(rows)).toEqual([
      { endpointId: 'a', filterError: null },
      { endpointId: 'b', filterError: null },
    ]);
  });

  it('takes one subscription that lets the event through as enough', () => {
    const rows = [
      row('a', '*', 'payload.missing'),
      row('a', '*', 'payload.amount > 9'),
      row('a', '*', 'payload.amount > 1'),
    ];
    expect(route(rows)).toEqual([{ endpointId: 'a', filterError: null }]);
  });

  it('leaves out an endpoint whose filters all say no', () => {
    expect(route([row('a', '*', 'payload.amount > 9')])).toEqual([]);
  });

  it.each([
    ['fails on the event', 'payload.missing > 1'],
    ['yields no bool on it', 'payload.amount'],
    ['no longer compiles', 'payload.amount >'],
  ])('shows a filter that %s as an error, neither delivered nor dropped', (_name, filter) => {
    const [only, ...others] = route([row('a', '*', filter), row('a', '*', 'false')]);
    expect(others).toEqual([]);
    expect(only?.endpointId).toBe('a');
    expect(only?.filterError).toEqual(expect.stringMatching(/\S/));
  });

  it('parses the event only when a filter has to look, and then once', () => {
    class Watched extends FilteredEvent {
      looks = 0;
      override get scope() {
        this.looks++;
        return super.scope;
      }
    }
    const looks = (rows: SubscriptionRow[], type: string): number => {
      const watched = new Watched({ id: 'x', type }, Buffer.from('{}'));
      void new RoutingTable(1, rows).route(type, watched, unexpected);
      return watched.looks;
    };
    const filtered = [row('a', 'order.*', 'true'), row('b', 'order.*', 'false'), row('c', '*')];
    expect([looks(filtered, 'user.made'), looks(filtered, 'order.paid')]).toEqual([0, 1]);
  });

  it('rules out by one look what wants another value, and only that', async () => {
    const filters = [
      'payload.kind == "x"',
      '"y" == payload.kind',
      'payload.kind == "x" && payload.amount > 9',
      'payload.amount > 1 && payload.kind == "x"',
      'payload.kind == "x" || payload.amount == 5',
      'payload.n == 30',
      'payload.n == 30.0',
      'payload.flag == true',
      'payload.none == null',
      '!(payload.kind == "x")',
      'payload.deep.er[1] == "z"',
    ];
    const rows = filters.map((filter, i) => row(`e${String(i).padStart(2, '0')}`, '*', filter));
    const values = fc.record(
      {
        kind: fc.constantFrom('x', 'y', 1, null, ['x'], { x: 1 }),
        amount: fc.constantFrom(0, 5, 10, '5'),
        n: fc.constantFrom(30, 30.5, '30', true),
        flag: fc.constantFrom(true, false, 'true', 1),
        none: fc.constantFrom(null, 0, ''),
        deep: fc.constantFrom({ er: ['q', 'z'] }, { er: 'z' }, {}, null, 7),
      },
      { requiredKeys: [] },
    );
    const here: JudgeElsewhere = ({ scope }, sources) =>
      Promise.resolve(
        sources.map((source) => {
          try {
            return compileFilter(source).matches(scope);
          } catch (error) {
            return { error: (error as Error).message };
          }
        }),
      );
    const outcome = async (list: readonly SubscriptionRow[], payload: unknown) => {
      const routes = await new RoutingTable(1, list).route('a.b', event(payload), here);
      return routes.map(({ endpointId, filterError }) => [endpointId, filterError === null]);
    };
    await fc.assert(
      fc.asyncProperty(values, async (payload) => {
        // With something in front of it that is no equality, a filter is always evaluated.
        const evaluated = rows.map((one) => ({ ...one, filter: `false || (${one.filter})` }));
        expect(await outcome(rows, payload)).toEqual(await outcome(evaluated, payload));
      }),
    );
  });

  it('sends filters elsewhere that may be dear on this event, and only those', async () => {
    const asked: string[][] = [];
    const elsewhere: JudgeElsewhere = (_event, sources) => {
      asked.push([...sources]);
      return Promise.resolve(sources.map((source) => (source.includes('boom') ? { error: 'boom' } : true)));
    };
    const rows = [
      row('a', '*', 'payload.amount == 5'),
      row('b', '*', 'payload.list.exists(x, x == 1)'),
      row('c', '*', 'payload.list == payload.list'),
      row('d', '*', '"x" in payload.tags'),
      row('e', '*', 'payload.list.exists(boom, boom)'),
      row('f', '*', 'size(payload.list) > 2'),
    ];
    const payload = { amount: 5, list: [1, 2, 3], tags: ['x'] };
    const routes = await new RoutingTable(1, rows).route('a.b', event(payload), elsewhere);
    expect(routes.map(({ endpointId, filterError }) => `${endpointId} ${filterError}`)).toEqual([
      'a null',
      'b null',
      'c null',
      'd null',
      'e boom',
      'f null',
    ]);
    expect(asked).toEqual([
      ['payload.list.exists(x, x == 1)', 'payload.list == payload.list', 'payload.list.exists(boom, boom)'],
    ]);
    // The same filters on long values.
    asked.length = 0;
    const long = { amount: 'x'.repeat(5_000), list: [1], tags: Array.from({ length: 500 }, () => 'y') };
    await new RoutingTable(1, [row('a', '*', 'payload.amount != "z"'), rows[3]!]).route(
      'a.b',
      event(long),
      elsewhere,
    );
    expect(asked).toEqual([['payload.amount != "z"', '"x" in payload.tags']]);
    // Escapes and long numbers make it slow to parse.
    asked.length = 0;
    const slow = { amount: 5, text: '\u0000'.repeat(3_000) };
    await new RoutingTable(1, [rows[0]!]).route('a.b', event(slow), elsewhere);
    expect(asked).toEqual([['payload.amount == 5']]);
  });

  it('does not depend on the order of subscriptions', () => {
    const rows = fc.array(
      fc
        .tuple(
          fc.constantFrom('a', 'b', 'c'),
          fc.constantFrom('*', 'order.*', 'order.paid', 'user.*'),
          fc.constantFrom(null, 'payload.amount > 1', 'payload.amount > 9', 'payload.missing', '1 +'),
        )
        .map((parts) => row(...parts)),
      { maxLength: 12 },
    );
    const outcome = (list: readonly SubscriptionRow[]) =>
      route(list)
        .map(({ endpointId, filterError }) => `${endpointId} ${filterError === null ? 'goes' : 'fails'}`)
        .sort();
    const shuffled = rows.chain((list) =>
      fc.tuple(fc.constant(list), fc.shuffledSubarray(list, { minLength: list.length })),
    );
    fc.assert(
      fc.property(shuffled, ([list, other]) => {
        expect(outcome(other)).toEqual(outcome(list));
        expect(new Set(route(list).map(({ endpointId }) => endpointId)).size).toBe(route(list).length);
      }),
    );
  });

  it('remembers candidates by type without mixing types up', () => {
    const table = new RoutingTable(1, [row('a', 'order.*'), row('b', 'user.*')]);
    for (let i = 0; i < 2_500; i++) {
      expect(table.route(`order.n${i}`, event(null), unexpected)).toEqual([
        { endpointId: 'a', filterError: null },
      ]);
      expect(table.route('user.made', event(null), unexpected)).toEqual([
        { endpointId: 'b', filterError: null },
      ]);
    }
  });
});
