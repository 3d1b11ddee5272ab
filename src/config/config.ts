import { isIP, isIPv4, isIPv6 } from 'node:net';
import { keys, environmentName, type Config, type KeyName, type KeySpec } from './keys.ts';
import { networkProblem } from './networks.ts';

/** One thing wrong with the configuration. */
export interface ConfigProblem {
  readonly key: string;
  readonly environment: string;
  readonly reason: string;
}

/** Thrown with all problems at once, so that a person mends them in one go. Values of secrets are never in it. */
export class ConfigError extends Error {
  readonly problems: readonly ConfigProblem[];

  constructor(problems: readonly ConfigProblem[]) {
    super('Configuration:\n' + problems.map((p) => `  ${p.environment} (${p.key}): ${p.reason}`).join('\n'));
    this.name = 'ConfigError';
    this.problems = problems;
  }
}

const names = Object.keys(keys) as KeyName[];
const specs: Readonly<Record<KeyName, KeySpec>> = keys;

/**
 * Reads the configuration from environment variables and, above them, from overrides (command-line flags, tests).
 * @throws ConfigError naming every bad value, every unknown RELAYOPS_ variable and every rule between keys that is broken
 */
export function loadConfig(
  environment: Readonly<Record<string, string | undefined>>,
  overrides: Partial<Config> = {},
): Config {
  const problems: ConfigProblem[] = [];
  const values: Record<string, unknown> = {};
  for (const key of names) {
    const spec = specs[key];
    const name = environmentName(key);
    const text = environment[name];
    const given = overrides[key];
    const problem = (reason: string): void => void problems.push({ key, environment: name, reason });
    if (given !== undefined) values[key] = checked(given, spec, problem);
    else if (text === undefined || text === '') values[key] = spec.default;
    else values[key] = checked(parse(text, spec, problem), spec, problem);
  }
  problems.push(...unknownVariables(environment));
  const config = values as unknown as Config;
  if (problems.length === 0) problems.push(...brokenRules(config));
  if (problems.length > 0) throw new ConfigError(problems);
  return config;
}

/** Key, value in force and origin, for `config print`. Secrets are masked. */
export function describeConfig(
  config: Config,
): { key: KeyName; environment: string; value: unknown; isDefault: boolean }[] {
  return names.map((key) => {
    const spec = specs[key];
    const value = config[key];
    const isEmpty = value === '' || (Array.isArray(value) && value.length === 0);
    const masked = spec.secret && !isEmpty ? '********' : value;
    return {
      key,
      environment: environmentName(key),
      value: masked,
      isDefault: JSON.stringify(value) === JSON.stringify(spec.default),
    };
  });
}

/** The environment that gives a process this configuration, without what is as by default. */
export function environmentOf(config: Partial<Config>): Record<string, string> {
  const given: Record<string, string> = {};
  for (const key of names) {
    const value = config[key];
    if (value === undefined || value === null || JSON.stringify(value) === JSON.stringify(specs[key].default))
      continue;
    given[environmentName(key)] = typeof value === 'object' ? value.join(',') : String(value);
  }
  return given;
}

function parse(text: string, spec: KeySpec, problem: (reason: string) => void): unknown {
  switch (spec.type) {
    case 'integer':
    case 'number': {
      const value = Number(text);
      if (!/^-?\d+(\.\d+)?$/.test(text.trim())) problem(`"${text}" is not a number`);
      return value;
    }
    case 'boolean':
      if (text !== 'true' && text !== 'false') problem(`"${text}" is neither true nor false`);
      return text === 'true';
    case 'list':
      return text
        .split(',')
        .map((part) => part.trim())
        .filter((part) => part !== '');
    case 'enum':
    case 'string':
      return text;
  }
}

function checked(value: unknown, spec: KeySpec, problem: (reason: string) => void): unknown {
  if (typeof value === 'number' && !Number.isNaN(value)) {
    if (spec.type === 'integer' && !Number.isInteger(value)) problem(`${value} is not a whole number`);
    if (spec.min !== undefined && value < spec.min) problem(`${value} is below ${spec.min}`);
    if (spec.max !== undefined && value > spec.max) problem(`${value} is above ${spec.max}`);
  }
  if (spec.values && !spec.values.includes(value as string))
    problem(`"${String(value)}" is none of ${spec.values.join(', ')}`);
  if (spec.pattern && typeof value === 'string' && !spec.pattern.form.test(value))
    problem(`is not ${spec.pattern.text}`);
  return value;
}

function unknownVariables(environment: Readonly<Record<string, string | undefined>>): ConfigProblem[] {
  const known = new Set<string>(names.map(environmentName));
  return Object.keys(environment)
    .filter((name) => name.startsWith('RELAYOPS_') && !known.has(name))
    .map((name) => ({
      key: '?',
      environment: name,
      reason: 'no such key; `relayops config print` lists all',
    }));
}

/** Rules between keys. A lease that could end before its attempt would let two workers send at once. */
function brokenRules(config: Config): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const rule = (broken: boolean, key: KeyName, reason: string): void => {
    if (broken) problems.push({ key, environment: environmentName(key), reason });
  };
  const longest = Math.max(config['delivery.timeoutMs'], config['delivery.maxTimeoutMs']);
  rule(
    config['delivery.leaseMs'] <= longest + config['delivery.leaseMarginMs'],
    'delivery.leaseMs',
    `${config['delivery.leaseMs']} ms is not longer than the longest attempt (${longest} ms) plus the margin (${config['delivery.leaseMarginMs']} ms)`,
  );
  rule(
    config['ingest.backlogLow'] >= config['ingest.backlogHigh'],
    'ingest.backlogLow',
    'must be below ingest.backlogHigh',
  );
  rule(
    config['ingest.maxRequestBytes'] < config['ingest.maxPayloadBytes'],
    'ingest.maxRequestBytes',
    'must not be below ingest.maxPayloadBytes',
  );
  for (const [low, high] of [
    ['ingest.outboxLow', 'ingest.outboxHigh'],
    ['ingest.readyLow', 'ingest.readyHigh'],
  ] as const)
    rule(config[low] >= config[high], low, `must be below ${high}`);
  rule(
    config['transport'] === 'rabbitmq' && config['rabbitmq.url'] === '',
    'rabbitmq.url',
    'is needed by the RabbitMQ transport, e.g. amqp://user:password@localhost:5672',
  );
  rule(
    config['coordination'] === 'redis' && config['redis.url'] === '',
    'redis.url',
    'is needed by coordination through Redis, e.g. redis://localhost:6379',
  );
  rule(
    config['outbox.claimMs'] <= config['rabbitmq.confirmTimeoutMs'],
    'outbox.claimMs',
    `${config['outbox.claimMs']} ms is not longer than rabbitmq.confirmTimeoutMs (${config['rabbitmq.confirmTimeoutMs']} ms)`,
  );
  rule(
    config['health.openCapMs'] < config['health.openMs'],
    'health.openCapMs',
    'must not be below health.openMs',
  );
  for (const network of config['http.trustedProxies']) {
    const problem = networkProblem(network);
    rule(
      problem !== null,
      'http.trustedProxies',
      `"${network}" ${problem}; write e.g. 10.0.0.0/8 or 192.0.2.7`,
    );
  }
  for (const server of config['delivery.dnsServers'])
    rule(
      !isServer(server),
      'delivery.dnsServers',
      `"${server}" is no address of a name server; write ip, ip:port or [ipv6]:port, for example 10.0.0.2:53`,
    );
  const jwt = config['auth.jwtSecret'];
  rule(jwt !== '' && jwt.length < 32, 'auth.jwtSecret', 'is shorter than 32 characters');
  const key = config['secrets.key'];
  rule(key !== '' && Buffer.from(key, 'base64').length !== 32, 'secrets.key', 'is not 32 bytes in base64');
  rule(
    config['secrets.previousKeys'].some((one) => Buffer.from(one, 'base64').length !== 32),
    'secrets.previousKeys',
    'has a key that is not 32 bytes in base64',
  );
  return problems;
}

/** `ip`, `ipv4:port` or `[ipv6]:port`. */
function isServer(text: string): boolean {
  if (isIP(text) !== 0) return true;
  const [, bracketed, bare = '', port] = /^(?:\[(.+)\]|([^:[\]]+)):(\d{1,5})$/.exec(text) ?? [];
  const isAddress = bracketed === undefined ? isIPv4(bare) : isIPv6(bracketed);
  return isAddress && Number(port) >= 1 && Number(port) <= 65_535;
}
