import { type ClientRequest, request } from 'node:http';
import { gzipSync } from 'node:zlib';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Problem } from '../../src/platform/http/problem.ts';
import { Relay } from '../support/relay.ts';
import { until } from '../support/until.ts';

const JSON_TYPE = { 'content-type': 'application/json' };
const GZIP = { ...JSON_TYPE, 'content-encoding': 'gzip' };
const MAX_ANSWER_BYTES = 16_384;

let relay: Relay;

beforeAll(async () => {
  relay = await Relay.start({
    'ingest.maxRequestBytes': 8_388_608,
    'ingest.maxPayloadBytes': 1_048_576,
    'ingest.bodyMemoryBytes': 16_777_216,
  });
});
afterAll(() => relay.close());

describe('a body that is too much', () => {
  it.each([
    ['deep', `{"email":"a","password":"b","x":${'['.repeat(4_000_000)}${']'.repeat(4_000_000)}}`],
    ['long', `{"email":"a","password":"${'b'.repeat(8_000_000)}"}`],
    ['just over', `{"email":"a","password":"${'b'.repeat(8_192)}"}`],
  ])('is refused before it is parsed when nobody is known yet: %s', async (_what, body) => {
    const answer = await fetch(`${relay.process.url}/v1/auth/login`, {
      method: 'POST',
      headers: JSON_TYPE,
      body,
    });
    expect(answer.status).toBe(413);
    expect(await answer.json()).toMatchObject({
      code: 'BODY_TOO_LARGE',
      detail: expect.stringMatching(/8192/) as unknown,
    });
  });

  it('of a route that sends no events ends at 64 KiB', async () => {
    const name = 'n'.repeat(70_000);
    const answer = await relay.api.call('POST', '/v1/endpoints', { url: 'https://a.example/', name });
    expect(answer).toMatchObject({ status: 413, body: { code: 'BODY_TOO_LARGE' } });
  });

  it('of unknown fields is refused with few words', async () => {
    const fields = Array.from({ length: 600_000 }, (_, i) => `"f${i}":1`).join(',');
    const event = `{"type":"a.b","payload":1,${fields}}`;
    const single = await relay.api.call('POST', '/v1/events', event, JSON_TYPE);
    expect(single.status).toBe(413);
    const small = await relay.api.call('POST', '/v1/events', event.slice(0, 900_000) + '"z":1}', JSON_TYPE);
    expect(small).toMatchObject({ status: 400, body: { code: 'EVENT_INVALID' } });
    expect(small.text.length).toBeLessThan(MAX_ANSWER_BYTES);
    expect(small.body.errors).toHaveLength(21);
    expect(small.body.errors!.at(-1)!.reason).toBe('and 1 more');
    const batch = await relay.api.call('POST', '/v1/events/batch', `{"events":[${event}]}`, JSON_TYPE);
    expect(batch.text.length).toBeLessThan(MAX_ANSWER_BYTES);
    expect(batch).toMatchObject({ status: 202, body: { accepted: 0, rejected: 1 } });
  });

  it('of long unknown names, and of a batch full of wrong events, is answered with few words', async () => {
    const long = await relay.api.call('POST', '/v1/events', {
      type: 'a.b',
      payload: 1,
      ['x'.repeat(50_000)]: 1,
    });
    expect(long.body.errors![0]!.field.length).toBeLessThan(200);
    const wrong = { type: '', who: 1, what: 2, occurredAt: 'never' };
    const events = [{ type: 'a.b', payload: 1 }, ...Array.from({ length: 900 }, () => wrong)];
    const answer = await relay.api.call<{ accepted: number; results: { error?: Problem }[] }>(
      'POST',
      '/v1/events/batch',
      { events },
    );
    expect(answer.body).toMatchObject({ accepted: 1, rejected: 900 });
    const listed = answer.body.results.flatMap(({ error }) => error?.errors ?? []);
    expect(listed.length).toBeLessThanOrEqual(25);
    expect(answer.body.results.at(-1)!.error).toMatchObject({ code: 'EVENT_INVALID', status: 400 });
    expect(answer.text.length).toBeLessThan(900 * 170 + MAX_ANSWER_BYTES);
  });
});

describe('a compressed body', () => {
  const event = JSON.stringify({ type: 'zip.one', payload: { text: 'x'.repeat(10_000) } });

  it('is decoded and delivered as it was before', async () => {
    const receiver = relay.receiver('zip');
    await relay.api.endpoint(receiver.url, 'zip.*');
    expect((await relay.api.call('POST', '/v1/events', gzipSync(event), GZIP)).status).toBe(202);
    const batch = gzipSync(`{"events":[${event},${event}]}`);
    expect((await relay.api.call('POST', '/v1/events/batch', batch, GZIP)).status).toBe(202);
    const binary = {
      'ce-specversion': '1.0',
      'ce-id': 'zipped',
      'ce-source': '/s',
      'ce-type': 'zip.binary',
      ...GZIP,
    };
    expect((await relay.api.call('POST', '/v1/events', gzipSync('{"plain": 1}'), binary)).status).toBe(202);
    await receiver.until((summary) => summary.succeededDeliveries === 4);
    const bodies = receiver.requests().map(({ body }) => body.toString());
    expect(bodies).toContain('{"plain": 1}');
    expect(bodies.filter((body) => body.startsWith('{"text":"xxx'))).toHaveLength(3);
  });

  it.each([
    ['of another coding', 'br', gzipSync(event), 415, 'CONTENT_CODING_UNSUPPORTED', /Content-Encoding: br/],
    ['of two codings', 'gzip, br', gzipSync(event), 415, 'CONTENT_CODING_UNSUPPORTED', /gzip, br/],
    ['that is none', 'gzip', Buffer.from(event), 400, 'CONTENT_CODING_INVALID', /gzip/],
    ['that breaks off', 'gzip', gzipSync(event).subarray(0, 40), 400, 'CONTENT_CODING_INVALID', /gzip/],
    ['that is a bomb', 'gzip', gzipSync(Buffer.alloc(200_000_000, 'a')), 413, 'BODY_TOO_LARGE', /limit/],
  ])('%s is refused by name', async (_what, coding, body, status, code, detail) => {
    for (const path of ['/v1/events', '/v1/events/batch']) {
      const answer = await relay.api.call('POST', path, body, { ...JSON_TYPE, 'content-encoding': coding });
      expect(answer, path).toMatchObject({
        status,
        body: { code, detail: expect.stringMatching(detail) as unknown },
      });
    }
  });
});

it('bodies that arrive have a share of the memory, and it comes back', async () => {
  const { api: other } = await relay.newTenant();
  const stuck = new Set<ClientRequest>();
  // Four megabytes of the eight that one tenant may hold, and then nothing. Refused when it met `send`: again.
  const uploadHalf = (): void => {
    const upload = request(`${relay.process.url}/v1/events/batch`, {
      method: 'POST',
      headers: { ...JSON_TYPE, authorization: `Bearer ${relay.api.key}` },
    });
    stuck.add(upload);
    upload.on('response', () => {
      stuck.delete(upload);
      upload.destroy();
      uploadHalf();
    });
    upload.on('error', () => undefined).write(Buffer.alloc(4_000_000, ' '));
  };
  uploadHalf();
  uploadHalf();
  const batch = `{"events":[{"type":"share.one","payload":"${'x'.repeat(1_000_000)}"}]}`;
  const send = () => relay.api.call('POST', '/v1/events/batch', batch, JSON_TYPE);
  const refused = await until('no room', send, ({ status }) => status === 503);
  expect(refused.body.code).toBe('BACKLOG_FULL');
  expect(refused.headers.get('retry-after')).toBe('1');
  expect((await other.call('POST', '/v1/events/batch', batch, JSON_TYPE)).status).toBe(202);
  for (const upload of stuck) upload.destroy();
  await until('room again', send, ({ status }) => status === 202);
});
