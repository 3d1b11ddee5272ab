import { describe, expect, it } from 'vitest';
import { environmentName, keys, type KeySpec } from '../../src/config/keys.ts';
import { read, readJson, readYaml } from './files.ts';

interface Service {
  readonly image?: string;
  readonly environment?: Readonly<Record<string, string>>;
  readonly read_only?: boolean;
  readonly stop_grace_period?: string;
  readonly healthcheck?: { readonly test?: readonly string[] };
  readonly depends_on?: Readonly<Record<string, { readonly condition: string }>> | readonly string[];
  readonly deploy?: {
    readonly replicas?: number;
    readonly resources?: { readonly limits?: { memory?: string } };
  };
}

const known = new Set(Object.keys(keys).map(environmentName));
const secrets = Object.entries<KeySpec>(keys)
  .filter(([, spec]) => spec.secret)
  .map(([key]) => environmentName(key));

describe('Dockerfile', async () => {
  const text = await read('deploy/Dockerfile');
  const lines = text.replaceAll(/\\\n\s*/g, '').split('\n');
  const of = (instruction: string) =>
    lines
      .filter((line) => line.startsWith(`${instruction} `))
      .map((line) => line.slice(instruction.length + 1));
  const last = lines.slice(lines.findLastIndex((line) => line.startsWith('FROM ')));

  it('starts from a Node of the minor version that the tests run on', async () => {
    const lock = await readJson<{ packages: Record<string, { version: string }> }>('package-lock.json');
    const [major, minor] = lock.packages['node_modules/node']!.version.split('.');
    expect(of('ARG')).toEqual([
      expect.stringMatching(new RegExp(`^NODE_IMAGE=node:${major}\\.${minor}-[a-z]+-slim$`)),
    ]);
    for (const from of of('FROM')) expect(from).toMatch(/^\$\{NODE_IMAGE\}( AS \w+)?$/);
  });

  it('runs as a user that is a number and not root', () => {
    expect(last.filter((line) => line.startsWith('USER '))).toEqual([
      expect.stringMatching(/^USER [1-9]\d{3,}:[1-9]\d{3,}$/),
    ]);
    expect(last.findLastIndex((line) => /^(RUN|COPY|ADD) /.test(line))).toBeLessThan(
      last.findIndex((line) => line.startsWith('USER ')),
    );
  });

  it('starts what the package says, takes SIGTERM, and is looked at for liveness', async () => {
    const { bin } = await readJson<{ bin: { relayops: string } }>('package.json');
    expect(of('ENTRYPOINT')).toEqual([`["node", "${bin.relayops}"]`]);
    expect(of('CMD')).toEqual(['["start"]']);
    expect(of('STOPSIGNAL')).toEqual(['SIGTERM']);
    expect(of('HEALTHCHECK')[0]).toMatch(/ADMIN_PORT \|\| 8090}\/livez/);
  });

  it('sets known variables only, and no secret', () => {
    const names = text.match(/RELAYOPS_\w+/g) ?? [];
    expect(names.filter((name) => !known.has(name))).toEqual([]);
    expect(names.filter((name) => secrets.includes(name))).toEqual([]);
  });

  it('is given what it copies and nothing else', async () => {
    const ignore = (await read('.dockerignore'))
      .split('\n')
      .filter((line) => line !== '' && !line.startsWith('#'));
    expect(ignore[0]).toBe('*');
    const given = ignore.filter((line) => line.startsWith('!')).map((line) => line.slice(1));
    const copied = of('COPY')
      .filter((line) => !line.startsWith('--from'))
      .flatMap((line) => line.split(' ').slice(0, -1));
    expect(given.sort()).toEqual([...new Set(copied)].sort());
  });
});

describe('compose.yaml', async () => {
  const text = await read('deploy/compose.yaml');
  const { services } = await readYaml<{ services: Readonly<Record<string, Service>> }>('deploy/compose.yaml');
  const example = await read('deploy/compose.env.example');
  const ours = Object.entries(services).filter(([, { image }]) => image?.includes('relayops'));

  it('has a migration, two API processes, three workers, and a gateway', () => {
    expect(ours.map(([name]) => name)).toEqual(['migrate', 'api', 'worker']);
    expect(services['api']?.deploy?.replicas).toBe(2);
    expect(services['worker']?.deploy?.replicas).toBe(3);
    for (const name of ['api', 'worker'])
      expect(services[name]?.depends_on).toMatchObject({
        migrate: { condition: 'service_completed_successfully' },
        rabbitmq: { condition: 'service_healthy' },
        redis: { condition: 'service_healthy' },
      });
    expect(services['gateway']?.depends_on).toMatchObject({ api: { condition: 'service_healthy' } });
  });

  it('sets variables that exist', () => {
    for (const [name, { environment = {} }] of ours) {
      expect(
        Object.keys(environment).filter((variable) => !known.has(variable)),
        name,
      ).toEqual([]);
      expect(environment['RELAYOPS_DATABASE_URL'], name).toBeDefined();
    }
  });

  it('stops without its secrets, and the example file names every variable that can be set', () => {
    const used = [...text.matchAll(/(?<!\$)\$\{(\w+)(:\?|:-)/g)].map(([, name = '', kind]) => ({
      name,
      kind,
    }));
    expect(used.length).toBeGreaterThan(0);
    const required = new Set(used.filter(({ kind }) => kind === ':?').map(({ name }) => name));
    const named = (pattern: RegExp) => [...example.matchAll(pattern)].map(([, name]) => name).sort();
    expect(named(/^([A-Z]\w+)=$/gm)).toEqual([...required].sort());
    const optional = new Set(used.map(({ name }) => name).filter((name) => !required.has(name)));
    expect(named(/^#([A-Z]\w+)=/gm)).toEqual([...optional].sort());
    expect([...required]).toEqual(
      expect.arrayContaining(['RELAYOPS_AUTH_JWT_SECRET', 'RELAYOPS_SECRETS_KEY']),
    );
  });

  it('gives processes longer to stop than they take', () => {
    for (const name of ['api', 'worker']) {
      const { environment, stop_grace_period } = services[name]!;
      const timeoutMs = Number(environment?.['RELAYOPS_SHUTDOWN_TIMEOUT_MS']);
      expect(Number(/^(\d+)s$/.exec(stop_grace_period ?? '')?.[1]) * 1000).toBeGreaterThanOrEqual(
        timeoutMs + 10_000,
      );
    }
  });

  it('runs on a file system that cannot be written, within limits, from pinned images', () => {
    for (const [name, service] of ours) expect(service.read_only, name).toBe(true);
    for (const [name, { image, deploy }] of Object.entries(services)) {
      expect(deploy?.resources?.limits?.memory, name).toMatch(/^\d+[mg]$/);
      expect(image, name).toMatch(/:v?\d|:\$|:-relayops:local\}$/);
    }
  });

  it('asks readiness, which sets what the alerts on dependencies look at', () => {
    for (const name of ['api', 'worker'])
      expect(services[name]?.healthcheck?.test?.join(' ')).toContain('/readyz');
  });
});
