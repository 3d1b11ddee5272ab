import { expect, it } from 'vitest';
import { environmentName, keys, type KeySpec } from '../../src/config/keys.ts';
import { list, read, readJson, readYaml } from './files.ts';

const CHART = 'deploy/helm/relayops';
type Tree = Readonly<Record<string, unknown>>;
interface Schema {
  readonly $ref?: string;
  readonly properties?: Readonly<Record<string, Schema>>;
  readonly propertyNames?: { readonly not: { readonly enum: readonly string[] } };
}

/** Values that are handed to Kubernetes as they are, or whose names the user chooses. */
const WHOLE = new Set(['resources', 'config']);

const values = await readYaml<Tree>(`${CHART}/values.yaml`);
const schema = await readJson<Schema>(`${CHART}/values.schema.json`);
const templates = (await Promise.all((await list(`${CHART}/templates/*`)).map(read))).join('\n');
const known = new Set(Object.keys(keys).map(environmentName));

function isTree(value: unknown): value is Tree {
  return (
    typeof value === 'object' && value !== null && !Array.isArray(value) && Object.keys(value).length > 0
  );
}

/** Paths of everything that can be set. */
function leaves(tree: Tree, above: readonly string[] = []): string[][] {
  return Object.entries(tree).flatMap(([name, value]) => {
    const path = [...above, name];
    return isTree(value) && !WHOLE.has(name) ? leaves(value, path) : [path];
  });
}

/** By its whole path, or by its end under a `with` of its beginning; both roles share one template. */
function isUsed(path: readonly string[]): boolean {
  if (templates.includes(`.Values.${path.join('.')}`)) return true;
  return path.some((_, n) => {
    const [above, below] = [path.slice(0, n).join('.'), path.slice(n).join('.')];
    const isOpened =
      new RegExp(`with (\\$root|\\$)?\\.Values\\.${above} `).test(templates) &&
      templates.includes(` .${below} `);
    return isOpened || (/^(api|worker)$/.test(above) && templates.includes(`$values.${below}`));
  });
}

function isDescribed(path: readonly string[]): boolean {
  let at: Schema | undefined = schema;
  for (const name of path) at = at?.properties?.[name];
  return at !== undefined;
}

it('every value is used by a template and described by the schema', () => {
  expect(
    leaves(values)
      .filter((path) => !isUsed(path))
      .map((path) => path.join('.')),
  ).toEqual([]);
  expect(
    leaves(values)
      .filter((path) => !isDescribed(path))
      .map((path) => path.join('.')),
  ).toEqual([]);
});

it('every value that a template asks for is there', () => {
  const asked = new Set([...templates.matchAll(/\.Values\.([\w.]+)/g)].map(([, path]) => path!));
  const missing = [...asked].filter((path) => {
    let at: unknown = values;
    for (const name of path.split('.')) at = (at as Tree | undefined)?.[name];
    return at === undefined;
  });
  expect(missing).toEqual([]);
});

it('the schema describes no value that is not there', () => {
  const described = (at: Schema, above: readonly string[] = []): string[] =>
    Object.entries(at.properties ?? {}).flatMap(([name, below]) =>
      below.properties ? described(below, [...above, name]) : [[...above, name].join('.')],
    );
  const there = leaves(values).map((path) => path.join('.'));
  expect(described(schema).filter((path) => path !== 'global' && !there.includes(path))).toEqual([]);
});

it('variables exist, in the values, the examples and the templates', async () => {
  const examples = await list(`${CHART}/ci/*-values.yaml`);
  expect(examples.length).toBeGreaterThan(1);
  for (const file of [`${CHART}/values.yaml`, ...examples]) {
    const { config = {} } = await readYaml<{ config?: Tree }>(file);
    expect(
      Object.keys(config).filter((name) => !known.has(name)),
      file,
    ).toEqual([]);
  }
  const named = templates.match(/RELAYOPS_[A-Z][A-Z_]*[A-Z]/g) ?? [];
  // What Kubernetes would set for a Service, in the comment that says why it must not.
  expect(named.filter((name) => !known.has(name) && name !== 'RELAYOPS_PORT')).toEqual([]);
});

it('secrets come from the Secret alone', () => {
  const secrets = Object.entries<KeySpec>(keys)
    .filter(([, spec]) => spec.secret)
    .map(([key]) => environmentName(key));
  expect(schema.properties?.['config']?.propertyNames?.not.enum).toEqual(expect.arrayContaining(secrets));
  expect(Object.keys(values['config'] as Tree).filter((name) => secrets.includes(name))).toEqual([]);
});

it('pods are not given the variables of services, with which a process would not start', () => {
  expect(templates.match(/^enableServiceLinks: false$/gm)).toHaveLength(1);
  expect(templates.match(/include "relayops.podSpec"/g)).toHaveLength(2);
});

it('installs the version of the package, without root and without a file system that can be written', async () => {
  const { version } = await readJson<{ version: string }>('package.json');
  expect((await readYaml<{ appVersion: string }>(`${CHART}/Chart.yaml`)).appVersion).toBe(version);
  const user = /^USER (\d+):/m.exec(await read('deploy/Dockerfile'))?.[1];
  expect(templates).toContain(`runAsUser: ${user}\n`);
  expect(templates).toContain('runAsNonRoot: true');
  expect(templates).toContain('readOnlyRootFilesystem: true');
});

it('workers are scaled by the same query through KEDA and through the adapter', async () => {
  const { rules } = await readYaml<{
    rules: { external: { name: { as: string }; metricsQuery: string }[] };
  }>('deploy/prometheus/adapter.yaml');
  const { name, metricsQuery } = rules.external[0]!;
  expect(templates).toContain(`name: ${name.as}\n`);
  const keda = /define "relayops\.backlogWhileBusy"[^\n]*\n[^\n]*\n(.*)\n/.exec(templates)?.[1];
  expect(keda?.replaceAll('{{ $namespace }}', '<<.LabelMatchers>>')).toBe(metricsQuery);
});
