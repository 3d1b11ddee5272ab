import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createBootstrapToken } from '../../src/tenants/index.ts';
import { Relay } from '../support/relay.ts';
import { RelayClient } from '../support/relay-client.ts';
import { findTool } from './debian-tool.ts';
import { read, readYaml } from './files.ts';
import { Gateway, requestFrom } from './gateway.ts';

const PASSWORD = 'correct horse battery';
const haproxy = await findTool({ program: 'haproxy', debian: 'haproxy', folder: 'usr/sbin' });

describe.skipIf(haproxy === null)('behind the shipped gateway', () => {
  let relay: Relay;
  let gateway: Gateway;
  let accounts = 0;

  beforeAll(async () => {
    relay = await Relay.start({ 'http.trustedProxies': ['127.0.0.1/32'] });
    gateway = await Gateway.start(haproxy!, relay.process.url, relay.process.adminUrl);
  });
  afterAll(async () => {
    await gateway.stop();
    await relay.close();
  });

  async function newOwner(): Promise<string> {
    const bootstrapToken = await createBootstrapToken(relay.test.database.requests, { ttlS: 60 });
    const email = `owner${accounts++}@example.com`;
    const body = { bootstrapToken, tenantName: 'Acme', email, password: PASSWORD };
    await new RelayClient(relay.process.url, '').ok('POST', '/v1/signup', body);
    return email;
  }

  const logIn = async (from: string, email: string, password: string, forwarded: readonly string[] = []) => {
    const headers = forwarded.map((value) => ['x-forwarded-for', value] as const);
    const body = JSON.stringify({ email, password });
    return (await requestFrom(from, gateway.port, 'POST', '/v1/auth/login', headers, body)).status;
  };

  it('ten wrong passwords from one client do not shut out the owner at another address', async () => {
    const email = await newOwner();
    const statuses = [];
    for (let i = 0; i < 11; i++) statuses.push(await logIn('127.0.0.2', email, 'wrong'));
    expect(statuses).toEqual([...Array<number>(10).fill(401), 429]);
    expect(await logIn('127.0.0.3', email, PASSWORD)).toBe(200);
  });

  it.each([
    ['/livez', '/readyz', '/metrics'],
    [
      '/%6detrics',
      '/re%61dyz',
      '/%2Fmetrics',
      '//metrics',
      '/./metrics',
      '/v1/../metrics',
      '/METRICS',
      '/metrics?x',
      '/v1',
    ],
  ])('shows no probe and no metric, however the path is spelled: %s', async (...paths) => {
    for (const path of paths) {
      const { status, text } = await requestFrom('127.0.0.5', gateway.port, 'GET', path);
      expect(status, path).toBe(404);
      expect(text, path).not.toMatch(/relayops_|"dependencies"/);
    }
  });

  it('a client cannot choose the address that it is counted under', async () => {
    const email = await newOwner();
    const statuses = [];
    for (let i = 0; i < 12; i++)
      statuses.push(
        await logIn('127.0.0.4', email, 'wrong', [`198.18.0.${i}`, `198.18.1.${i}, 10.0.0.${i}`]),
      );
    expect(statuses).toEqual([...Array<number>(10).fill(401), 429, 429]);
  });
});

it('compose.yaml trusts the network that the gateway is in, and no other', async () => {
  const { services, networks } = await readYaml<{
    services: Record<string, { environment?: Record<string, string>; networks?: string[] }>;
    networks: Record<string, { ipam?: { config?: { subnet?: string }[] } } | null>;
  }>('deploy/compose.yaml');
  const trusted = services['api']?.environment?.['RELAYOPS_HTTP_TRUSTED_PROXIES'];
  expect(trusted).toMatch(/^\$\{EDGE_SUBNET:-[\d./]+\}$/);
  expect(networks['edge']?.ipam?.config?.[0]?.subnet).toBe(trusted);
  expect(services['gateway']?.networks).toEqual(['edge']);
});

it('haproxy.cfg says who the client is, and passes nothing on that a client says about it', async () => {
  const lines = (await read('deploy/haproxy.cfg')).split('\n').map((line) => line.trim());
  expect(lines).toContain('option forwardfor');
  expect(lines).toContain('http-request del-header X-Forwarded-For');
});

it('the chart has a value for the ingress controller, and says so when it is not set', async () => {
  const { config } = await readYaml<{ config: Record<string, unknown> }>('deploy/helm/relayops/values.yaml');
  expect(config).toHaveProperty('RELAYOPS_HTTP_TRUSTED_PROXIES');
  const notes = await read('deploy/helm/relayops/templates/NOTES.txt');
  expect(notes).toContain('not .Values.config.RELAYOPS_HTTP_TRUSTED_PROXIES');
});
