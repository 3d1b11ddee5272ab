import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SimulatedReceiver } from '../../src/simulator/index.ts';
import { Relay } from '../support/relay.ts';
import type { AcceptedEvent } from '../support/relay-client.ts';

let relay: Relay;
let receiver: SimulatedReceiver;

beforeAll(async () => {
  relay = await Relay.start();
  receiver = relay.receiver('idempotency');
  await relay.api.endpoint(receiver.url, '*');
});
afterAll(() => relay.close());

const keyed = (key: string) => ({ 'idempotency-key': key });
const event = (payload: unknown) => ({ type: 'order.paid', payload });
const post = (body: unknown, headers: Record<string, string> = {}, api = relay.api) =>
  api.call<AcceptedEvent & { code: string; originalEventId: string }>('POST', '/v1/events', body, headers);
const isReplayed = (answer: { headers: Headers }): boolean =>
  answer.headers.get('idempotency-replayed') === 'true';

describe('an idempotency key (SPEC C3)', () => {
  it('sent fifty times at once makes one event and gets fifty equal answers', async () => {
    const answers = await Promise.all(
      Array.from({ length: 50 }, () => post(event({ order: 1 }), keyed('fifty'))),
    );
    expect(new Set(answers.map(({ status }) => status))).toEqual(new Set([202]));
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter((answer) => !isReplayed(answer))).toHaveLength(1);
    await relay.api.untilSettled();
    expect(await relay.count('events', `idempotency_key = 'fifty'`)).toBe(1);
    expect(receiver.summary()).toMatchObject({ requests: 1, uniqueDeliveries: 1 });
  });

  it('sent to two processes at once makes one event', async () => {
    const other = relay.api.at((await relay.startAnother({ role: 'api' })).url);
    const answers = await Promise.all(
      Array.from({ length: 40 }, (_, i) => post(event(1), keyed('two'), i % 2 === 0 ? relay.api : other)),
    );
    expect(new Set(answers.map(({ text }) => text)).size).toBe(1);
    expect(answers.filter((answer) => !isReplayed(answer))).toHaveLength(1);
    expect(await relay.count('events', `idempotency_key = 'two'`)).toBe(1);
  });

  it('with another body is refused with 409 that names the original', async () => {
    const first = await post(event({ order: 2 }), keyed('other-body'));
    const before = await relay.count('events');
    for (const other of [event({ order: 3 }), { type: 'order.sent', payload: { order: 2 } }]) {
      const refused = await post(other, keyed('other-body'));
      expect(refused).toMatchObject({
        status: 409,
        body: { code: 'IDEMPOTENCY_CONFLICT', originalEventId: first.body.eventId },
      });
    }
    // The same value in other bytes is another body: what is signed and delivered are the bytes.
    const spaced = `{"type":"order.paid","payload":{ "order": 2 }}`;
    const json = { 'content-type': 'application/json' };
    expect((await post(spaced, { ...json, ...keyed('other-body') })).status).toBe(409);
    expect(await relay.count('events')).toBe(before);
  });

  it('means the same in the header and in the body', async () => {
    const inHeader = await post(event(1), keyed('either-way'));
    const inBody = await post({ ...event(1), idempotencyKey: 'either-way' });
    const inBoth = await post({ ...event(1), idempotencyKey: 'either-way' }, keyed('either-way'));
    expect([inBody.text, inBoth.text]).toEqual([inHeader.text, inHeader.text]);
    expect([inHeader, inBody, inBoth].map(isReplayed)).toEqual([false, true, true]);
    expect(await relay.api.ok('GET', `/v1/events/${inHeader.body.eventId}`)).toMatchObject({
      idempotencyKey: 'either-way',
    });
  });

  it('does not mind a new trace context', async () => {
    const trace = (id: string) => ({ traceparent: `00-${id.repeat(32)}-${id.repeat(16)}-01` });
    const first = await post(event(1), { ...keyed('traced'), ...trace('a') });
    expect((await post(event(1), { ...keyed('traced'), ...trace('b') })).text).toBe(first.text);
  });

  it('may be used anew once it has expired', async () => {
    const first = await post(event(1), keyed('expiring'));
    await relay.sql(
      `UPDATE relayops.idempotency_keys SET expires_at = now() - interval '1 s' WHERE key = 'expiring'`,
    );
    const second = await post(event(2), keyed('expiring'));
    expect(second.status).toBe(202);
    expect(isReplayed(second)).toBe(false);
    expect(second.body.eventId).not.toBe(first.body.eventId);
    expect((await post(event(2), keyed('expiring'))).text).toBe(second.text);
    expect((await post(event(1), keyed('expiring'))).body.originalEventId).toBe(second.body.eventId);
  });

  it('of one tenant is not that of another', async () => {
    const { api } = await relay.newTenant();
    const mine = await post(event(1), keyed('shared'));
    const theirs = await post(event(2), keyed('shared'), api);
    expect([mine.status, theirs.status]).toEqual([202, 202]);
    expect([mine, theirs].map(isReplayed)).toEqual([false, false]);
    expect(theirs.body.eventId).not.toBe(mine.body.eventId);
  });

  it('outlives its event: a repeat after retention gets the ID and causes nothing', async () => {
    const first = await post(event(1), keyed('outlived'));
    await relay.api.untilSettled();
    for (const table of ['delivery_attempts', 'deliveries', 'events'])
      await relay.sql(`DELETE FROM relayops.${table} WHERE event_id = $1`, first.body.eventId);
    const again = await post(event(1), keyed('outlived'));
    expect(again).toMatchObject({
      status: 202,
      body: { eventId: first.body.eventId, deliveries: null },
    });
    expect(await relay.count('events', 'event_id = $1', first.body.eventId)).toBe(0);
  });

  it.each(['ä', 'a'.repeat(512), '😀"\\', ' spaced out '])('may be any text: %s', async (idempotencyKey) => {
    const body = { ...event(1), idempotencyKey };
    const [first, again] = [await post(body), await post(body)];
    expect(first.status).toBe(202);
    expect(again.text).toBe(first.text);
    expect(isReplayed(again)).toBe(true);
  });
});
