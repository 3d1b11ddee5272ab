import { createHash } from 'node:crypto';
import { CloudEvent, HTTP } from 'cloudevents';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { SimulatedReceiver } from '../../src/simulator/index.ts';
import { Relay } from '../support/relay.ts';
import type { AcceptedEvent, Problem } from '../support/relay-client.ts';

const MAX_PAYLOAD_BYTES = 65_536;
const MAX_REQUEST_BYTES = 262_144;
const JSON_TYPE = { 'content-type': 'application/json' };
const BATCH_TYPE = { 'content-type': 'application/cloudevents-batch+json' };

type BatchEntry =
  | ({ readonly status: 'accepted'; readonly replayed: boolean } & AcceptedEvent)
  | { readonly status: 'rejected'; readonly error: Problem };
interface BatchAnswer {
  readonly accepted: number;
  readonly rejected: number;
  readonly results: readonly BatchEntry[];
}

let relay: Relay;
let receiver: SimulatedReceiver;

beforeAll(async () => {
  relay = await Relay.start({
    'ingest.maxPayloadBytes': MAX_PAYLOAD_BYTES,
    'ingest.maxRequestBytes': MAX_REQUEST_BYTES,
    'ingest.maxBatchEvents': 50,
  });
  receiver = relay.receiver('events');
  await relay.api.endpoint(receiver.url, '*');
});
afterAll(() => relay.close());
beforeEach(async () => {
  await relay.api.untilSettled();
  receiver.reset();
});

/** Everything that taking an event in may write. */
const stored = async (): Promise<readonly number[]> =>
  Promise.all(
    ['events', 'deliveries', 'delivery_work', 'idempotency_keys'].map((table) => relay.count(table)),
  );

const sha256 = (text: string): string => createHash('sha256').update(text).digest('hex');

describe('one event (SPEC C1, C2)', () => {
  it('is answered with its ID, time and number of deliveries, and is there when the answer comes', async () => {
    const { status, body } = await relay.api.call<AcceptedEvent>('POST', '/v1/events', {
      type: 'order.paid',
      payload: { order: 1 },
      occurredAt: '2026-01-31T12:00:00+01:00',
    });
    expect(status).toBe(202);
    expect(body.deliveries).toBe(1);
    const event = await relay.api.ok('GET', `/v1/events/${body.eventId}`);
    expect(event).toMatchObject({
      eventId: body.eventId,
      type: 'order.paid',
      format: 'native',
      contentType: 'application/json',
      payloadBytes: '{"order":1}'.length,
      occurredAt: '2026-01-31T11:00:00.000Z',
      acceptedAt: body.acceptedAt,
      deliveryCount: 1,
    });
    expect(await relay.api.deliveryOf(body.eventId)).toMatchObject({ eventType: 'order.paid' });
  });

  it('passes its trace context on', async () => {
    const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
    await relay.api.ok('POST', '/v1/events', { type: 'trace.on', payload: 1 }, { traceparent });
    await receiver.until((summary) => summary.requests === 1);
    expect(receiver.requests()[0]!.headers['traceparent']).toBe(traceparent);
  });
});

const TEXTS: readonly (readonly [string, string])[] = [
  ['key order', '{"b":1,"a":2,"10":3,"9":4}'],
  ['white space', '{ "a" :\t1 ,\r\n "b" : [ 1 ,2 ] }'],
  ['escapes', String.raw`"\u0041\/\u00e9\ud83d\ude00\n\"\\"`],
  ['half of a surrogate pair', String.raw`{"half":"\ud800"}`],
  ['integers beyond 2^53', '[9007199254740993,-12345678901234567890123]'],
  ['1.0 and 1e400', '[1.0,1e400,0.1e-7,100000000000000000000000.5]'],
  ['-0', '-0'],
  ['U+2028 as it is', '{"line":"a\u2028b\u2029c"}'],
  ['U+2028 escaped', String.raw`"\u2028"`],
  ['duplicate keys', '{"a":1,"a":2}'],
  ['characters beyond the basic plane', '"😀 日本語 Ünïcödé"'],
  ['U+0000 escaped', String.raw`"\u0000"`],
  ['null', 'null'],
  ['an empty text', '""'],
];

describe('the bytes of a payload (SPEC C5)', () => {
  it.each(TEXTS)('reach the receiver as they came: %s', async (_what, text) => {
    const { eventId } = await relay.api.sendText('bytes.one', text);
    await receiver.until((summary) => summary.requests === 1);
    const [request] = receiver.requests();
    expect(request!.body).toBe(text);
    expect(request!.sha256).toBe(sha256(text));
    expect((await relay.api.call('GET', `/v1/events/${eventId}/payload`)).text).toBe(text);
  });

  it('are cut out of a batch exactly', async () => {
    const events = TEXTS.map(([, text]) => ` {"payload" : ${text} , "type":"bytes.batch"}\n`);
    const answer = await relay.api.ok<BatchAnswer>(
      'POST',
      '/v1/events/batch',
      `{ "events" : [${events.join(',')}] }`,
      JSON_TYPE,
    );
    expect(answer).toMatchObject({ accepted: TEXTS.length, rejected: 0 });
    await receiver.until((summary) => summary.requests === TEXTS.length);
    const bodyOf = new Map(
      receiver.requests().map(({ headers, body }) => [headers['x-relayops-event-id'], body]),
    );
    const ids = answer.results.map((entry) => (entry.status === 'accepted' ? entry.eventId : ''));
    expect(ids.map((id) => bodyOf.get(id))).toEqual(TEXTS.map(([, text]) => text));
  });

  it('may be as many as allowed and are one text at the limit', async () => {
    const text = JSON.stringify('x'.repeat(MAX_PAYLOAD_BYTES - 2));
    await relay.api.sendText('bytes.limit', text);
    await receiver.until((summary) => summary.requests === 1);
    expect(receiver.requests()[0]!.sha256).toBe(sha256(text));
  });
});

describe('a batch', () => {
  it('takes the good events and names what is wrong with the bad ones, in order', async () => {
    const answer = await relay.api.ok<BatchAnswer>('POST', '/v1/events/batch', {
      events: [
        { type: 'batch.good', payload: 1 },
        { type: 'not a type', payload: 2 },
        { type: 'batch.good' },
        { type: 'batch.good', payload: 'x'.repeat(MAX_PAYLOAD_BYTES) },
        'no object',
        { type: 'batch.good', payload: 3 },
      ],
    });
    expect(answer).toMatchObject({ accepted: 2, rejected: 4 });
    expect(
      answer.results.map((entry) =>
        entry.status === 'accepted' ? 'accepted' : [entry.error.code, entry.error.errors?.[0]?.field],
      ),
    ).toEqual([
      'accepted',
      ['EVENT_INVALID', 'type'],
      ['EVENT_INVALID', 'payload'],
      ['PAYLOAD_TOO_LARGE', undefined],
      ['EVENT_INVALID', 'body'],
      'accepted',
    ]);
    await receiver.until((summary) => summary.requests === 2);
    expect(
      receiver
        .requests()
        .map(({ body }) => body)
        .sort(),
    ).toEqual(['1', '3']);
  });

  it('answers repeats of a key within itself with the first, and another body with 409', async () => {
    const answer = await relay.api.ok<BatchAnswer>('POST', '/v1/events/batch', {
      events: [
        { type: 'batch.key', payload: 1, idempotencyKey: 'batch-key' },
        { type: 'batch.key', payload: 1, idempotencyKey: 'batch-key' },
        { type: 'batch.key', payload: 2, idempotencyKey: 'batch-key' },
      ],
    });
    const [first, second, third] = answer.results;
    if (first?.status !== 'accepted' || second?.status !== 'accepted' || third?.status !== 'rejected')
      throw new Error(JSON.stringify(answer));
    expect([first.replayed, second.replayed]).toEqual([false, true]);
    expect(second.eventId).toBe(first.eventId);
    expect(third.error).toMatchObject({ code: 'IDEMPOTENCY_CONFLICT', originalEventId: first.eventId });
  });
});

describe('CloudEvents, sent and read by the library of the project', () => {
  const event = new CloudEvent({
    id: 'a-1',
    source: '/sensors/t%C3%BCr-1',
    type: 'com.example.opened',
    subject: 'door "1"',
    time: '2026-01-31T12:00:00.000Z',
    datacontenttype: 'application/json',
    data: { open: true, by: '日本' },
    tenantzone: 'eu',
  });

  const headersOf = (message: { headers: Record<string, unknown> }): Record<string, string> =>
    Object.fromEntries(Object.entries(message.headers).map(([name, value]) => [name, String(value)]));

  const sent = async (message: ReturnType<typeof HTTP.binary<unknown>>): Promise<void> => {
    const answer = await relay.api.call('POST', '/v1/events', message.body, headersOf(message));
    expect(answer.status, answer.text).toBe(202);
    await receiver.until((summary) => summary.requests === 1);
  };

  it('in structured mode stay one document, byte for byte', async () => {
    const message = HTTP.structured(event);
    await sent(message);
    const [request] = receiver.requests();
    expect(request!.body).toBe(message.body);
    expect(request!.headers['content-type']).toBe('application/cloudevents+json');
    expect(HTTP.toEvent({ headers: request!.headers, body: request!.body })).toEqual(event.cloneWith({}));
  });

  it('in binary mode keep their attributes as headers', async () => {
    // The library sends attribute values as they are; the binding wants them percent-encoded where they are not plain ASCII.
    const message = HTTP.binary(event.cloneWith({ id: 'a-2', source: '/sensors/1', subject: 'door 1' }));
    await sent(message);
    const [request] = receiver.requests();
    expect(request!.body).toBe(message.body);
    expect(request!.headers).toMatchObject({
      'ce-specversion': '1.0',
      'ce-id': 'a-2',
      'ce-source': '/sensors/1',
      'ce-type': 'com.example.opened',
      'ce-tenantzone': 'eu',
      'ce-time': '2026-01-31T12:00:00.000Z',
    });
    const read = HTTP.toEvent<{ open: boolean }>({ headers: request!.headers, body: request!.body });
    expect(read).toMatchObject({ id: 'a-2', type: 'com.example.opened', data: { open: true, by: '日本' } });
  });

  it('in binary mode carry values that no header can, percent-encoded both ways', async () => {
    const headers = {
      'ce-specversion': '1.0',
      'ce-id': 'a-3',
      'ce-source': '/s',
      'ce-type': 'com.example.opened',
      'ce-subject': 'T%C3%BCr%20%22%E2%82%AC%22%0A100%25',
      'content-type': 'text/plain; charset=utf-8',
    };
    const answer = await relay.api.call('POST', '/v1/events', 'any ü bytes', headers);
    expect(answer.status, answer.text).toBe(202);
    await receiver.until((summary) => summary.requests === 1);
    const [request] = receiver.requests();
    expect(request!.headers['ce-subject']).toBe('T%C3%BCr%20%22%E2%82%AC%22%0A100%25');
    expect(request!.headers['content-type']).toBe('text/plain; charset=utf-8');
    expect(request!.body).toBe('any ü bytes');
  });

  it('in a batch are taken one by one, each with its own bytes', async () => {
    const one = (id: string, data: string): string =>
      `{"specversion":"1.0","id":"${id}","source":"/s","type":"com.example.b","data":${data}}`;
    const bad = '{"specversion":"0.3","id":"b-2","source":"/s","type":"com.example.b"}';
    const events = [one('b-1', '{"n":1.0}'), bad, one('b-3', '{ "n" : 9007199254740993 }')];
    const answer = await relay.api.ok<BatchAnswer>(
      'POST',
      '/v1/events/batch',
      `[${events.join(' , ')}]`,
      BATCH_TYPE,
    );
    expect(answer.results.map(({ status }) => status)).toEqual(['accepted', 'rejected', 'accepted']);
    expect(answer.results[1]).toMatchObject({
      error: { code: 'CLOUDEVENT_INVALID', errors: [{ field: 'specversion' }] },
    });
    await receiver.until((summary) => summary.requests === 2);
    expect(
      receiver
        .requests()
        .map(({ body }) => body)
        .sort(),
    ).toEqual([events[0], events[2]]);
  });

  it('are known again by source and ID', async () => {
    const message = HTTP.structured(event.cloneWith({ id: 'a-4' }));
    const send = () => relay.api.call<AcceptedEvent>('POST', '/v1/events', message.body, headersOf(message));
    const [first, again] = [await send(), await send()];
    expect(again.body).toEqual(first.body);
    expect(again.headers.get('idempotency-replayed')).toBe('true');
    const other = HTTP.structured(event.cloneWith({ id: 'a-4', data: { open: false } }));
    const conflict = await relay.api.call('POST', '/v1/events', other.body, headersOf(other));
    expect(conflict).toMatchObject({ status: 409, body: { originalEventId: first.body.eventId } });
  });
});

interface Refusal {
  readonly what: string;
  readonly path?: string;
  readonly body: string | Uint8Array;
  readonly headers?: Readonly<Record<string, string>>;
  readonly status: number;
  readonly code: string;
  readonly field?: string;
}

const CE = { 'content-type': 'application/cloudevents+json' };
const BINARY = { 'ce-specversion': '1.0', 'ce-id': '1', 'ce-source': '/s', 'ce-type': 'a.b' };
const BATCH = '/v1/events/batch';
const good = '{"type":"a.b","payload":1}';

const REFUSALS: readonly Refusal[] = [
  { what: 'malformed JSON', body: '{"type":', status: 400, code: 'BODY_MALFORMED' },
  { what: 'nothing', body: '', status: 400, code: 'BODY_MALFORMED' },
  { what: 'two documents', body: `${good}${good}`, status: 400, code: 'BODY_MALFORMED' },
  { what: 'NaN', body: '{"type":"a.b","payload":NaN}', status: 400, code: 'BODY_MALFORMED' },
  {
    what: 'invalid UTF-8',
    body: Buffer.from('7b2274797065223a22612e62222c227061796c6f6164223a22ff227d', 'hex'),
    status: 400,
    code: 'BODY_MALFORMED',
  },
  { what: 'no object', body: '[1]', status: 400, code: 'EVENT_INVALID', field: 'body' },
  {
    what: 'a type of ours',
    body: '{"type":"endpoint.disabled","payload":1}',
    status: 400,
    code: 'EVENT_INVALID',
    field: 'type',
  },
  { what: 'no type', body: '{"payload":1}', status: 400, code: 'EVENT_INVALID', field: 'type' },
  { what: 'no payload', body: '{"type":"a.b"}', status: 400, code: 'EVENT_INVALID', field: 'payload' },
  {
    what: 'a type that is a number',
    body: '{"type":1,"payload":1}',
    status: 400,
    code: 'EVENT_INVALID',
    field: 'type',
  },
  {
    what: 'a type that is too long',
    body: `{"type":"${'a'.repeat(257)}","payload":1}`,
    status: 400,
    code: 'EVENT_INVALID',
    field: 'type',
  },
  {
    what: 'an unknown field',
    body: '{"type":"a.b","payload":1,"tenantId":"x"}',
    status: 400,
    code: 'EVENT_INVALID',
    field: 'tenantId',
  },
  {
    what: 'a key that is a number',
    body: '{"type":"a.b","payload":1,"idempotencyKey":1}',
    status: 400,
    code: 'EVENT_INVALID',
    field: 'idempotencyKey',
  },
  {
    what: 'a key with a control character',
    body: '{"type":"a.b","payload":1,"idempotencyKey":"a\\u0000b"}',
    status: 400,
    code: 'EVENT_INVALID',
    field: 'idempotencyKey',
  },
  {
    what: 'a key with half a surrogate pair, which PostgreSQL cannot hold',
    body: '{"type":"a.b","payload":1,"idempotencyKey":"a\\ud800"}',
    status: 400,
    code: 'EVENT_INVALID',
    field: 'idempotencyKey',
  },
  {
    what: 'a time that is none',
    body: '{"type":"a.b","payload":1,"occurredAt":"yesterday"}',
    status: 400,
    code: 'EVENT_INVALID',
    field: 'occurredAt',
  },
  {
    what: 'a header key that differs from the field',
    body: '{"type":"a.b","payload":1,"idempotencyKey":"one"}',
    headers: { ...JSON_TYPE, 'idempotency-key': 'two' },
    status: 400,
    code: 'EVENT_INVALID',
    field: 'idempotencyKey',
  },
  {
    what: 'an empty header key',
    body: good,
    headers: { ...JSON_TYPE, 'idempotency-key': '' },
    status: 400,
    code: 'EVENT_INVALID',
    field: 'Idempotency-Key',
  },
  {
    what: 'a payload over its limit',
    body: `{"type":"a.b","payload":"${'x'.repeat(MAX_PAYLOAD_BYTES)}"}`,
    status: 413,
    code: 'PAYLOAD_TOO_LARGE',
  },
  {
    what: 'a body over its limit',
    body: `{"type":"a.b","payload":"${'x'.repeat(MAX_REQUEST_BYTES)}"}`,
    status: 413,
    code: 'BODY_TOO_LARGE',
  },
  {
    what: 'another content type',
    body: good,
    headers: { 'content-type': 'text/plain' },
    status: 415,
    code: 'MEDIA_TYPE_UNSUPPORTED',
  },
  { what: 'no content type', body: good, headers: {}, status: 415, code: 'MEDIA_TYPE_UNSUPPORTED' },
  {
    what: 'a CloudEvent of another version',
    body: '{"specversion":"0.3","id":"1","source":"/s","type":"a.b"}',
    headers: CE,
    status: 400,
    code: 'CLOUDEVENT_INVALID',
    field: 'specversion',
  },
  {
    what: 'a CloudEvent without ID',
    body: '{"specversion":"1.0","source":"/s","type":"a.b"}',
    headers: CE,
    status: 400,
    code: 'CLOUDEVENT_INVALID',
    field: 'id',
  },
  {
    what: 'a binary CloudEvent without source',
    body: '1',
    headers: { ...BINARY, 'ce-source': '' },
    status: 400,
    code: 'CLOUDEVENT_INVALID',
    field: 'ce-source',
  },
  {
    what: 'a binary CloudEvent over the payload limit',
    body: 'x'.repeat(MAX_PAYLOAD_BYTES + 1),
    headers: BINARY,
    status: 413,
    code: 'PAYLOAD_TOO_LARGE',
  },
  {
    what: 'a batch without events',
    path: BATCH,
    body: '{"events":[]}',
    status: 400,
    code: 'EVENT_INVALID',
    field: 'events',
  },
  {
    what: 'a batch that is an array',
    path: BATCH,
    body: `[${good}]`,
    status: 400,
    code: 'EVENT_INVALID',
    field: 'events',
  },
  {
    what: 'a batch with an unknown field',
    path: BATCH,
    body: `{"events":[${good}],"tenantId":"x"}`,
    status: 400,
    code: 'EVENT_INVALID',
    field: 'tenantId',
  },
  {
    what: 'a batch with a header key',
    path: BATCH,
    body: `{"events":[${good}]}`,
    headers: { ...JSON_TYPE, 'idempotency-key': 'one' },
    status: 400,
    code: 'EVENT_INVALID',
    field: 'Idempotency-Key',
  },
  {
    what: 'a batch of too many events',
    path: BATCH,
    body: `{"events":[${Array.from({ length: 51 }, () => good).join(',')}]}`,
    status: 413,
    code: 'BATCH_TOO_LARGE',
  },
  {
    what: 'a batch of another content type',
    path: BATCH,
    body: good,
    headers: CE,
    status: 415,
    code: 'MEDIA_TYPE_UNSUPPORTED',
  },
];

describe('what is not well formed is refused, with code, field, reason and fix, and nothing of it is stored', () => {
  it.each(REFUSALS)(
    '$what',
    async ({ path = '/v1/events', body, headers = JSON_TYPE, status, code, field }) => {
      const before = await stored();
      const answer = await relay.api.call('POST', path, body, headers);
      expect(answer.headers.get('content-type')).toMatch(/^application\/problem\+json/);
      expect(answer.body).toMatchObject({
        status,
        code,
        type: `https://relayops.dev/errors/${code}`,
        requestId: answer.headers.get('x-request-id'),
      });
      expect(answer.status).toBe(status);
      expect(answer.body.title).not.toBe('');
      expect(answer.body.fix).not.toBe('');
      if (field !== undefined) {
        const problem = answer.body.errors?.find((candidate) => candidate.field === field);
        expect(problem?.reason, JSON.stringify(answer.body)).toMatch(/\w/);
      }
      expect(await stored()).toEqual(before);
    },
  );

  it('names every wrong field at once', async () => {
    const { body } = await relay.api.call('POST', '/v1/events', { type: '', who: 1, occurredAt: 'x' });
    expect(body.errors?.map(({ field }) => field).sort()).toEqual(['occurredAt', 'payload', 'type', 'who']);
  });
});

describe('hostile events', () => {
  it('that are nested too deep are refused and harm no neighbour', async () => {
    const filtered = relay.receiver('filtered');
    await relay.api.endpoint(filtered.url, 'deep.*', {
      subscriptions: [{ pattern: 'deep.*', filter: 'payload.n > 0' }],
    });
    const depth = 30_000;
    const deep = '['.repeat(depth) + ']'.repeat(depth);
    const events = [
      '{"type":"deep.neighbour","payload":{"n":1}}',
      `{"type":"deep.one","payload":${deep}}`,
      '{"type":"deep.neighbour","payload":{"n":2}}',
    ];
    const answer = await relay.api.ok<BatchAnswer>(
      'POST',
      '/v1/events/batch',
      `{"events":[${events.join(',')}]}`,
      JSON_TYPE,
    );
    expect(answer).toMatchObject({ accepted: 2, rejected: 1 });
    expect(answer.results[1]).toMatchObject({ error: { code: 'BODY_TOO_DEEP', status: 413 } });
    await filtered.until((summary) => summary.succeededDeliveries === 2);
    const alone = await relay.api.call('POST', '/v1/events', events[1], JSON_TYPE);
    expect(alone).toMatchObject({ status: 413, body: { code: 'BODY_TOO_DEEP' } });
  });

  it('with a content type beyond ASCII are delivered with it', async () => {
    const headers = {
      'ce-specversion': '1.0',
      'ce-id': 'latin',
      'ce-source': '/s',
      'ce-type': 'latin.one',
      'content-type': 'text/plain; name="caf\u00e9"',
    };
    await relay.api.ok('POST', '/v1/events', 'x', headers);
    await receiver.until((summary) => summary.succeededDeliveries === 1);
    expect(receiver.requests()[0]!.headers['content-type']).toBe('text/plain; name="caf\u00e9"');
  });
});
