import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { fileURLToPath } from 'node:url';
import fc from 'fast-check';
import { Agent, request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Simulator, startSimulator } from './simulator.ts';

const SECRET = 'whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD';
let simulator: Simulator;
let agent: Agent;

beforeAll(async () => {
  simulator = await startSimulator();
  agent = new Agent();
});
afterAll(async () => {
  await agent.destroy();
  await simulator.close();
});

async function call(method: string, path: string, body?: string): Promise<{ status: number; json: unknown }> {
  const { origin } = new URL(simulator.url);
  const response = await agent.request({ origin, path, method, ...(body !== undefined && { body }) });
  return { status: response.statusCode, json: await response.body.json() };
}

describe('the control API', () => {
  it('says what it can do', async () => {
    const { status, json } = await call('GET', '/');
    expect(status).toBe(200);
    expect(json).toMatchObject({
      settings: { status: { default: [200], text: expect.any(String) as string } },
    });
  });

  it('sets, shows, counts and forgets a receiver, and keeps its secrets to itself', async () => {
    const settings = { behaviour: { status: '500,200' }, secrets: [SECRET] };
    const put = await call('PUT', '/receivers/orders', JSON.stringify(settings));
    expect(put).toMatchObject({ status: 200, json: { behaviour: { status: [500, 200] }, secrets: 1 } });
    expect((await call('POST', '/r/orders', '{"a":1}')).status).toBe(500);
    expect((await call('PUT', '/receivers/orders', '{"behaviour":{}}')).json).toMatchObject({
      behaviour: { status: [200] },
      secrets: 1,
    });
    const shown = await call('GET', '/receivers/orders');
    expect(shown.json).toMatchObject({
      name: 'orders',
      path: '/r/orders',
      requests: 1,
      answers: { 500: 1 },
      signatures: { failed: 1 },
      last: { body: '{"a":1}', answered: 500 },
    });
    expect(JSON.stringify(shown)).not.toContain(SECRET);
    expect((await call('GET', '/receivers')).json).toMatchObject({ receivers: [{ name: 'orders' }] });
    expect((await call('DELETE', '/receivers/orders')).json).toMatchObject({ requests: 0, secrets: 0 });
  });

  it('pages over requests, deliveries and shows the summary alone', async () => {
    const { url } = simulator.receiver('paged');
    for (const id of ['a', 'b', 'c'])
      await request(url, {
        method: 'POST',
        headers: { 'x-relayops-delivery-id': id },
        dispatcher: agent,
      }).then((response) => response.body.dump());
    const requests = await call('GET', '/receivers/paged/requests?limit=2');
    expect(requests.json).toMatchObject({ requests: [{ seq: 0 }, { seq: 1 }], after: 1 });
    const rest = await call('GET', '/receivers/paged/requests?limit=2&after=1');
    expect(rest.json).toMatchObject({ requests: [{ seq: 2 }], after: 2 });
    const deliveries = await call('GET', '/receivers/paged/deliveries?limit=2&after=1');
    expect(deliveries.json).toMatchObject({
      deliveries: [
        ['b', 1, 1, expect.any(String)],
        ['c', 1, 1, expect.any(String)],
      ],
      after: 3,
    });
    expect((await call('GET', '/receivers/paged/summary')).json).toMatchObject({ uniqueDeliveries: 3 });
  });

  it.each([
    ['POST', '/r/a?status=1', undefined, 400, 'status'],
    ['POST', '/r/a?what=1', undefined, 400, 'what'],
    ['PUT', '/receivers/a', '{"behaviour":{"latencyMs":-1}}', 400, 'latencyMs'],
    ['PUT', '/receivers/a', '{"behaviour":[]}', 400, 'behaviour'],
    ['PUT', '/receivers/a', '{"secrets":"x"}', 400, 'secrets'],
    ['PUT', '/receivers/a', '{"secrets":["whsec_abc"]}', 400, 'secrets'],
    ['PUT', '/receivers/a', '{"status":200}', 400, 'status'],
    ['PUT', '/receivers/a', '{', 400, 'body'],
    ['PUT', '/receivers/a', '[]', 400, 'body'],
    ['GET', '/receivers/a/requests?limit=x', undefined, 400, 'limit'],
    ['GET', '/receivers/a/deliveries?after=-1', undefined, 400, 'after'],
  ])('%s %s %s → %i, naming the field', async (method, path, body, status, field) => {
    const answer = await call(method, path, body);
    expect(answer).toMatchObject({
      status,
      json: { errors: [{ field, reason: expect.any(String) as string }] },
    });
  });

  it.each([
    ['GET', '/r/a', 405],
    ['POST', '/r/', 404],
    ['POST', '/r/a%20b', 404],
    ['POST', `/r/${'x'.repeat(65)}`, 404],
    ['GET', '/nothing', 404],
    ['GET', '/receivers/a/nothing', 404],
    ['GET', '/receivers/a/requests/more', 404],
    ['POST', '/receivers/a', 405],
    ['PUT', '/receivers/a/requests', 405],
    ['GET', '//[', 404],
  ])('%s %s → %i', async (method, path, status) => {
    expect((await call(method, path)).status).toBe(status);
  });

  it('refuses a body that is too large', async () => {
    expect((await call('PUT', '/receivers/a', 'x'.repeat(1_100_000))).status).toBe(413);
  });

  it('answers every request with JSON, whatever the path', async () => {
    const path = fc.webPath().map((text) => `/r/fuzz${text}`);
    const query = fc.webQueryParameters();
    await fc.assert(
      fc.asyncProperty(fc.constantFrom('GET', 'POST', 'PUT'), path, query, async (method, at, parameters) => {
        const { status } = await call(method, `${at}?${parameters}`);
        expect([200, 400, 404, 405]).toContain(status);
      }),
    );
  });
});

describe('the simulator as a process', () => {
  const main = fileURLToPath(new URL('./main.ts', import.meta.url));

  async function started(
    args: string[],
    stdio: 'pipe' | 'ipc',
  ): Promise<{ child: ChildProcess; url: string }> {
    const child = spawn(process.execPath, [main, ...args], {
      stdio: ['ignore', 'pipe', 'inherit', ...(stdio === 'ipc' ? (['ipc'] as const) : [])],
    });
    const [line] = (await once(child.stdout!, 'data')) as [Buffer];
    return { child, url: (JSON.parse(line.toString()) as { url: string }).url };
  }

  it('prints its URL, answers, and ends on SIGTERM', async () => {
    const { child, url } = await started(['--keep', '0', '--no-verify'], 'pipe');
    const response = await request(`${url}/r/a`, { method: 'POST', dispatcher: agent });
    await response.body.dump();
    expect(response.statusCode).toBe(200);
    child.kill('SIGTERM');
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  it('ends with the parent that forked it', async () => {
    const { child } = await started([], 'ipc');
    child.disconnect();
    expect(await once(child, 'exit')).toEqual([0, null]);
  });

  it('refuses arguments that make no sense', async () => {
    const child = spawn(process.execPath, [main, '--port', 'x'], { stdio: 'ignore' });
    expect(await once(child, 'exit')).toEqual([1, null]);
  });
});
