import fc from 'fast-check';
import { expect, it } from 'vitest';
import { Acknowledgements } from './acknowledgements.ts';

/** What the broker holds open; a tag that is not open closes the channel. */
class Broker {
  readonly open: Set<number>;
  frames = 0;

  constructor(tags: number) {
    this.open = new Set(Array.from({ length: tags }, (_, index) => index + 1));
  }

  readonly ack = (tag: number, multiple: boolean): void => {
    this.frames += 1;
    if (!this.open.delete(tag)) throw new Error(`unknown delivery tag ${tag}`);
    if (multiple) for (const other of [...this.open]) if (other < tag) this.open.delete(other);
  };
}

it('acknowledges what is done, nothing else, and only tags that are open', () => {
  const order = fc.integer({ min: 1, max: 40 }).chain((count) =>
    fc.shuffledSubarray(
      Array.from({ length: count }, (_, index) => index + 1),
      { minLength: count },
    ),
  );
  const plan = fc.tuple(order, fc.array(fc.integer({ min: 1, max: 7 }), { minLength: 1 }));
  fc.assert(
    fc.property(plan, ([tags, sizes]) => {
      const broker = new Broker(tags.length);
      const acknowledgements = new Acknowledgements(broker.ack);
      const rest = [...tags];
      for (let turn = 0; rest.length > 0; turn += 1) {
        acknowledgements.settle(rest.splice(0, sizes[turn % sizes.length]));
        expect([...broker.open].sort()).toEqual([...rest].sort());
      }
    }),
  );
});

it('needs one frame for a run', () => {
  const broker = new Broker(100);
  new Acknowledgements(broker.ack).settle(Array.from({ length: 100 }, (_, index) => index + 1));
  expect(broker.frames).toBe(1);
});
