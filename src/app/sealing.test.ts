import { randomBytes } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { Relay, TEST_SECRETS } from '../../test/support/relay.ts';
import { type Config, environmentOf, loadConfig } from '../config/index.ts';
import { SecretBox } from '../endpoints/index.ts';
import { runChecks } from './doctor.ts';
import { requireKey, reseal } from './sealing.ts';

const OLD = TEST_SECRETS['secrets.key'];
const NEW = randomBytes(32).toString('base64');
const idOf = (key: string) => new SecretBox(key).keyId;

let relay: Relay;
beforeEach(async () => void (relay = await Relay.start()));
afterEach(() => relay.close());

const configWith = (changes: Partial<Config>): Config =>
  loadConfig({}, { ...TEST_SECRETS, 'database.url': relay.test.url, ...changes });
const finding = async (changes: Partial<Config>) =>
  (await runChecks(environmentOf(configWith(changes)))).find(({ check }) => check === 'sealing key');
const resealWith = (changes: Partial<Config>) => reseal(configWith(changes), () => undefined);
const makeEndpoint = async (): Promise<string> => {
  const made = await relay.api.call<{ endpoint: { endpointId: string } }>('POST', '/v1/endpoints', {
    url: 'https://hooks.example.com/in',
    headers: { Authorization: 'Bearer hush' },
  });
  return made.body.endpoint.endpointId;
};
const canary = async () => (await relay.sql('SELECT key_id FROM relayops.sealing_canary'))[0]?.['key_id'];

describe('another sealing key', () => {
  it.each(['all', 'api', 'worker'] as const)('does not start (%s), and doctor says why', async (role) => {
    const start = relay.startAnother({ role, 'secrets.key': NEW });
    const error = await start.then(
      () => null,
      (reason: unknown) => reason as Error,
    );
    for (const text of [error?.message, (await finding({ 'secrets.key': NEW }))?.detail])
      for (const part of ['secrets.key', idOf(NEW), idOf(OLD)]) expect(text).toContain(part);
    expect(error?.message).toContain('RELAYOPS_SECRETS_KEY');
    expect(error?.message).toContain('secrets.previousKeys');
    expect(error?.message).not.toContain(NEW);
    expect(await finding({ 'secrets.key': NEW })).toMatchObject({ status: 'failed' });
    expect(await finding({})).toMatchObject({ status: 'ok', detail: `key ID ${idOf(OLD)}` });
    expect(await canary()).toBe(idOf(OLD));
  });

  it('does not start on a database of the version before, which has secrets and no canary', async () => {
    await makeEndpoint();
    await relay.sql('DELETE FROM relayops.sealing_canary');
    await expect(requireKey(configWith({ 'secrets.key': NEW }))).rejects.toThrow(idOf(OLD));
    expect(await canary()).toBeUndefined();
    await requireKey(configWith({}));
    expect(await canary()).toBe(idOf(OLD));
  });

  it('is one and the same for processes that start together', async () => {
    await relay.sql('DELETE FROM relayops.sealing_canary');
    const results = await Promise.allSettled(
      [OLD, NEW, OLD, NEW].map((key) => requireKey(configWith({ 'secrets.key': key }))),
    );
    const winner = await canary();
    expect(results.map(({ status }) => status)).toEqual(
      [OLD, NEW, OLD, NEW].map((key) => (idOf(key) === winner ? 'fulfilled' : 'rejected')),
    );
    await relay.sql('DELETE FROM relayops.sealing_canary');
  });
});

describe('changing keys', () => {
  const BOTH = { 'secrets.key': NEW, 'secrets.previousKeys': [OLD] };

  it('starts with the previous key listed, and without it once all is resealed', async () => {
    const id = await makeEndpoint();
    const overlapping = await relay.startAnother(BOTH);
    expect(await finding(BOTH)).toMatchObject({
      status: 'warning',
      remedy: 'Run `relayops secrets reseal`.',
    });
    // A secret and a header value.
    expect(await resealWith(BOTH)).toEqual({
      resealed: 2,
      current: 0,
      unopenable: 0,
      unopenableEndpoints: [],
    });
    expect(await resealWith(BOTH)).toMatchObject({ resealed: 0, current: 2 });
    expect(await canary()).toBe(idOf(NEW));
    expect(await finding({ 'secrets.key': NEW })).toMatchObject({ status: 'ok' });
    await expect(relay.startAnother({})).rejects.toThrow(idOf(NEW));
    const after = await relay.startAnother({ 'secrets.key': NEW });
    const shown = async (url: string) => {
      const answer = await fetch(`${url}/v1/endpoints/${id}`, {
        headers: { authorization: `Bearer ${relay.api.key}` },
      });
      return ((await answer.json()) as { headers: unknown }).headers;
    };
    for (const { url } of [overlapping, after])
      expect(await shown(url)).toEqual({ Authorization: 'Bearer hush' });
  });

  it('reports what cannot be opened and leaves it as it is', async () => {
    const broken = await makeEndpoint();
    await makeEndpoint();
    const foreign = new SecretBox(randomBytes(32).toString('base64')).seal(randomBytes(32), broken);
    await relay.sql(
      'UPDATE relayops.endpoint_secrets SET ciphertext = $2 WHERE endpoint_id = $1',
      broken,
      foreign,
    );
    expect(await resealWith(BOTH)).toEqual({
      resealed: 3,
      current: 0,
      unopenable: 1,
      unopenableEndpoints: [broken],
    });
    const [left] = await relay.sql<{ ciphertext: Buffer }>(
      'SELECT ciphertext FROM relayops.endpoint_secrets WHERE endpoint_id = $1',
      broken,
    );
    expect(left!.ciphertext.equals(foreign)).toBe(true);
  });

  it('goes over all batches, beside changes of endpoints', async () => {
    const first = await makeEndpoint();
    await relay.sql(
      `INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url, headers)
       SELECT gen_random_uuid(), $1, 'https://example.com/', '{"X-A": "1"}' FROM generate_series(1, 250)`,
      relay.tenantId,
    );
    const done: number[] = [];
    const config = configWith(BOTH);
    const [result, changed] = await Promise.all([
      reseal(config, (count) => done.push(count)),
      relay.api.call('PATCH', `/v1/endpoints/${first}`, { name: 'beside' }),
    ]);
    expect(changed.status).toBe(200);
    expect(result).toMatchObject({ unopenable: 0 });
    expect(result.resealed + result.current).toBe(252);
    expect(done.at(-1)).toBe(251);
    expect(await relay.count('webhook_endpoints', "headers <> '{}'")).toBe(0);
  });

  it('is refused without the key that the database is sealed with', async () => {
    await expect(resealWith({ 'secrets.key': NEW })).rejects.toThrow(idOf(OLD));
    expect(await canary()).toBe(idOf(OLD));
  });
});

it('the janitor seals the headers that the version before has written', async () => {
  await relay.sql(
    `INSERT INTO relayops.webhook_endpoints (endpoint_id, tenant_id, url, headers)
     SELECT gen_random_uuid(), $1, 'https://example.com/', '{"X-A": "1"}' FROM generate_series(1, 250)`,
    relay.tenantId,
  );
  await relay.process.runtime.janitor.round();
  expect(await relay.count('webhook_endpoints', "headers <> '{}'")).toBe(0);
  expect(await relay.count('webhook_endpoints', "sealed_headers ? 'X-A'")).toBe(250);
});
