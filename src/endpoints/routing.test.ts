import fc from 'fast-check';
import { describe, expect, it } from 'vitest';
import type { EndpointId } from '../shared/ids.ts';
import { RoutingTable, type SubscriptionRow } from './routing.ts';

const row = (endpointId: string, pattern: string, filter: string | null = null): SubscriptionRow => ({
  endpointId: endpointId as EndpointId,
  pattern,
  filter,
});
const route = (rows: readonly SubscriptionRow[], type = 'order.paid', payload: unknown = { amount: 5 }) =>
  new RoutingTable(1, rows).route(type, () => ({ event: { id: 'x', type }, payload }));

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
    const looks = (rows: SubscriptionRow[], type: string): number => {
      let calls = 0;
      new RoutingTable(1, rows).route(type, () => {
        calls++;
        return { event: { id: 'x', type }, payload: {} };
      });
      return calls;
    };
    const filtered = [row('a', 'order.*', 'true'), row('b', 'order.*', 'false'), row('c', '*')];
    expect([looks(filtered, 'user.made'), looks(filtered, 'order.paid')]).toEqual([0, 1]);
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
    const scope = () => ({ event: { id: 'x', type: '' }, payload: null });
    for (let i = 0; i < 2_500; i++) {
      expect(table.route(`order.n${i}`, scope)).toEqual([{ endpointId: 'a', filterError: null }]);
      expect(table.route('user.made', scope)).toEqual([{ endpointId: 'b', filterError: null }]);
    }
  });
});
