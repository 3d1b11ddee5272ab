import { describe, expect, it } from 'vitest';
import { ConfigError, describeConfig, environmentOf, loadConfig } from './config.ts';

/** The variables that the configuration complains about. */
function problemsOf(
  environment: Record<string, string>,
  overrides: Parameters<typeof loadConfig>[1] = {},
): Record<string, string> {
  try {
    loadConfig(environment, overrides);
    return {};
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return Object.fromEntries(error.problems.map((problem) => [problem.environment, problem.reason]));
  }
}

describe('loading', () => {
  it('takes the defaults from an empty environment, and empty variables as absent', () => {
    const config = loadConfig({ RELAYOPS_HTTP_PORT: '', PATH: '/bin' });
    expect(config).toMatchObject({ role: 'all', 'http.port': 8080, 'delivery.allowAddresses': [] });
    expect(config['delivery.socketsPerOrigin']).toBe(config['delivery.concurrency']);
    expect(describeConfig(config).every(({ isDefault }) => isDefault)).toBe(true);
  });

  it('reads every type, and takes overrides above the environment', () => {
    const config = loadConfig(
      {
        RELAYOPS_HTTP_PORT: '9999',
        RELAYOPS_DELIVERY_HTTP2: 'false',
        RELAYOPS_DELIVERY_BACKOFF_FACTOR: '1.5',
        RELAYOPS_DELIVERY_ALLOW_ADDRESSES: '10.0.0.0/8, 127.0.0.1/32:9000',
        RELAYOPS_ROLE: 'worker',
      },
      { role: 'api' },
    );
    expect(config).toMatchObject({
      role: 'api',
      'http.port': 9999,
      'delivery.http2': false,
      'delivery.backoffFactor': 1.5,
      'delivery.allowAddresses': ['10.0.0.0/8', '127.0.0.1/32:9000'],
    });
  });

  it('names every problem at once', () => {
    expect(
      problemsOf({
        RELAYOPS_ROLE: 'boss',
        RELAYOPS_HTTP_PORT: '70000',
        RELAYOPS_DELIVERY_CONCURRENCY: 'many',
        RELAYOPS_DELIVERY_CLAIM_BATCH: '1.5',
        RELAYOPS_DELIVERY_HTTP2: 'yes',
        RELAYOPS_HTTP_PROT: '1',
      }),
    ).toEqual({
      RELAYOPS_ROLE: expect.stringContaining('none of all, api, worker') as string,
      RELAYOPS_HTTP_PORT: '70000 is above 65535',
      RELAYOPS_DELIVERY_CONCURRENCY: '"many" is not a number',
      RELAYOPS_DELIVERY_CLAIM_BATCH: '1.5 is not a whole number',
      RELAYOPS_DELIVERY_HTTP2: '"yes" is neither true nor false',
      RELAYOPS_HTTP_PROT: expect.stringContaining('no such key') as string,
    });
  });

  it.each(['pod-7.eu:a_b', 'x'.repeat(200), ''])('takes the instance name "%s"', (instance) =>
    expect(loadConfig({ RELAYOPS_INSTANCE: instance }).instance).toBe(instance),
  );

  it.each(['two words', 'a\nb', 'a/b', 'x'.repeat(201)])('refuses the instance name "%s"', (instance) =>
    expect(problemsOf({ RELAYOPS_INSTANCE: instance })).toHaveProperty('RELAYOPS_INSTANCE'),
  );
});

describe('rules between keys', () => {
  it('a lease is longer than the longest attempt and its margin', () => {
    const attempt = {
      'delivery.timeoutMs': 1_000,
      'delivery.maxTimeoutMs': 2_000,
      'delivery.leaseMarginMs': 500,
    };
    expect(problemsOf({}, { ...attempt, 'delivery.leaseMs': 2_500 })).toHaveProperty(
      'RELAYOPS_DELIVERY_LEASE_MS',
    );
    expect(problemsOf({}, { ...attempt, 'delivery.leaseMs': 2_501 })).toEqual({});
  });

  it('trusted proxies are addresses or networks, and every one that is not is named', () => {
    const read = (text: string) => loadConfig({ RELAYOPS_HTTP_TRUSTED_PROXIES: text })['http.trustedProxies'];
    const good = '10.0.0.0/8, 192.0.2.7,2001:db8::/32,::1';
    expect(read(good)).toEqual(['10.0.0.0/8', '192.0.2.7', '2001:db8::/32', '::1']);
    for (const bad of [
      '10.0.0.0/33',
      '10.0.0',
      '10.0.0.0/',
      'proxy',
      'fe80::1%eth0',
      '::/129',
      '1.2.3.4/8/8',
      'loopback',
    ])
      expect(() => read(`192.0.2.7,${bad}`), bad).toThrow(
        new RegExp(`RELAYOPS_HTTP_TRUSTED_PROXIES \\(http\\.trustedProxies\\): "${bad}"`),
      );
    for (const all of ['0.0.0.0/0', '::/0']) expect(() => read(all)).toThrow(/any client could then choose/);
  });

  it('secrets have their length, and the complaint does not show them', () => {
    const short = { 'auth.jwtSecret': 'short-secret', 'secrets.key': 'c2hvcnQ=' };
    const problems = problemsOf({}, short);
    expect(Object.keys(problems)).toEqual(['RELAYOPS_AUTH_JWT_SECRET', 'RELAYOPS_SECRETS_KEY']);
    expect(JSON.stringify(problems)).not.toMatch(/short-secret|c2hvcnQ=/);
  });
});

describe('what is shown', () => {
  it('masks secrets that are set', () => {
    const url = 'postgres://relay:hunter2@db/relay';
    const shown = describeConfig(loadConfig({}, { 'database.url': url, 'http.port': 1 }));
    expect(shown.find(({ key }) => key === 'database.url')).toMatchObject({
      value: '********',
      isDefault: false,
    });
    expect(shown.find(({ key }) => key === 'secrets.key')).toMatchObject({ value: '' });
    expect(shown.find(({ key }) => key === 'http.port')).toMatchObject({
      value: 1,
      environment: 'RELAYOPS_HTTP_PORT',
    });
    expect(JSON.stringify(shown)).not.toContain('hunter2');
  });
});

it('gives a child process the same configuration by its environment', () => {
  const config = loadConfig(
    {},
    {
      role: 'worker',
      'database.url': 'postgres://db/relay',
      'delivery.allowAddresses': ['127.0.0.1/32:9000', '10.0.0.0/8'],
      'delivery.http2': false,
      'health.disableAfterS': 60,
    },
  );
  const environment = environmentOf(config);
  expect(loadConfig(environment)).toEqual(config);
  expect(Object.keys(environment)).toHaveLength(5);
});

it('takes name servers by address only', () => {
  const good = ['10.0.0.2', '10.0.0.2:5353', '2001:db8::1', '[2001:db8::1]:53'];
  expect(loadConfig({}, { 'delivery.dnsServers': good })['delivery.dnsServers']).toEqual(good);
  for (const bad of ['ns.example.com', '10.0.0.2:0', '10.0.0.2:65536', '[10.0.0.2]:53', '[2001:db8::1]', ''])
    expect(() => loadConfig({}, { 'delivery.dnsServers': [bad] })).toThrow(/delivery\.dnsServers/);
});
