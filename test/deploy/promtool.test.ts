import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import os from 'node:os';
import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { list, readJson, root } from './files.ts';
import { findPromtool, promtool } from './promtool.ts';

interface Dashboard {
  readonly panels: readonly { readonly targets?: readonly { readonly expr: string }[] }[];
}

const program = await findPromtool();
const folder = path.join(root, 'deploy', 'prometheus');

describe.skipIf(program === null)('promtool', () => {
  it('takes the rules and the scrape configuration', async () => {
    expect(await promtool(program!, ['check', 'rules', path.join(folder, 'alerts.yaml')])).toContain(
      'SUCCESS',
    );
    await promtool(program!, ['check', 'config', path.join(folder, 'prometheus.yaml')]);
  });

  // About 10 s: a storage of its own for each of the tests.
  it('sees every alert fire and keep quiet as its tests say', { timeout: 120_000 }, async () => {
    const file = path.join(folder, 'alerts.test.yaml');
    expect(await promtool(program!, ['test', 'rules', file])).toContain('SUCCESS');
  });

  it('takes every expression of the dashboards', async () => {
    const files = await list('deploy/grafana/dashboards/*.json');
    const dashboards = await Promise.all(files.map((file) => readJson<Dashboard>(file)));
    const all = dashboards.flatMap(({ panels }) =>
      panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr)),
    );
    expect(all.length).toBeGreaterThan(0);
    expect(await checkExpressions(all)).toContain(`SUCCESS: ${all.length} rules`);
  });
});

/** As rules, which is the form in which promtool checks expressions. */
async function checkExpressions(expressions: readonly string[]): Promise<string> {
  const rules = expressions.map((expr, n) => ({
    record: `panel:${n}`,
    expr: expr.replaceAll('$__rate_interval', '1m').replaceAll(/\$\w+/g, '.*'),
  }));
  const draft = await mkdtemp(path.join(os.tmpdir(), 'relayops-panels-'));
  try {
    const file = path.join(draft, 'rules.yaml');
    await writeFile(file, JSON.stringify({ groups: [{ name: 'panels', rules }] }));
    return await promtool(program!, ['check', 'rules', file]);
  } finally {
    await rm(draft, { recursive: true });
  }
}
