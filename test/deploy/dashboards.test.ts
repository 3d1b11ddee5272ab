import path from 'node:path';
import { describe, expect, it } from 'vitest';
import { list, readJson, readYaml } from './files.ts';
import { ownMetrics, unknownNames, usageOf } from './promql.ts';

interface Panel {
  readonly id: number;
  readonly type: string;
  readonly title: string;
  readonly description?: string;
  readonly datasource?: { readonly uid: string };
  readonly targets?: readonly { readonly expr: string; readonly datasource: { readonly uid: string } }[];
  readonly fieldConfig?: { readonly defaults: { readonly unit?: string } };
  readonly gridPos: { readonly x: number; readonly y: number; readonly w: number; readonly h: number };
}
interface Dashboard {
  readonly uid: string;
  readonly title: string;
  readonly panels: readonly Panel[];
  readonly templating: {
    readonly list: readonly { readonly name: string; readonly datasource?: { readonly uid: string } }[];
  };
}

const files = await list('deploy/grafana/dashboards/*.json');
const dashboards = await Promise.all(files.map((file) => readJson<Dashboard>(file)));

const graphs = (dashboard: Dashboard) => dashboard.panels.filter(({ type }) => type !== 'row');
const expressions = (panels: readonly Panel[]) =>
  panels.flatMap(({ targets = [] }) => targets.map(({ expr }) => expr));

describe.each(dashboards.map((dashboard) => [dashboard.uid, dashboard] as const))('%s', (uid, dashboard) => {
  it('lies in a file of its name, and its panels have numbers and places of their own', () => {
    expect(files).toContain(`deploy/grafana/dashboards/${uid}.json`);
    const { panels } = dashboard;
    expect(new Set(panels.map(({ id }) => id)).size).toBe(panels.length);
    const cells = panels.flatMap(({ gridPos: { x, y, w, h } }) =>
      Array.from({ length: w * h }, (_, n) => `${x + (n % w)}/${y + Math.floor(n / w)}`),
    );
    expect(new Set(cells).size).toBe(cells.length);
  });

  it('can be pointed at a data source, an installation, a role and a process', () => {
    const [datasource, ...others] = dashboard.templating.list;
    expect(datasource?.name).toBe('datasource');
    expect(others.map(({ name }) => name)).toEqual(['namespace', 'job', 'instance']);
    for (const variable of others) expect(variable.datasource?.uid).toBe('${datasource}');
    for (const { datasource, targets } of graphs(dashboard)) {
      expect(datasource?.uid).toBe('${datasource}');
      for (const target of targets ?? []) {
        expect(target.datasource.uid).toBe('${datasource}');
        expect(target.expr).toContain('namespace=~"$namespace", job=~"$job", instance=~"$instance"');
      }
    }
  });

  it('has a unit and an explanation for each panel', () => {
    for (const { title, description, fieldConfig } of graphs(dashboard)) {
      expect(description, title).toMatch(/\S{3}/);
      expect(fieldConfig?.defaults.unit, title).toMatch(/^[a-z]+$/);
    }
  });

  it('names series and labels that exist', () => {
    for (const expr of expressions(graphs(dashboard))) expect(unknownNames(expr), expr).toEqual([]);
  });
});

it('every metric is on a dashboard', () => {
  const shown = new Set(
    dashboards
      .flatMap((dashboard) => expressions(graphs(dashboard)))
      .flatMap((expr) => usageOf(expr).series.map(({ name }) => name)),
  );
  const hidden = ownMetrics().filter(
    (name) => !['', '_bucket', '_sum', '_count'].some((suffix) => shown.has(name + suffix)),
  );
  expect(hidden).toEqual([]);
});

it('the provisioned data source and folder are those that compose.yaml mounts', async () => {
  const { services } = await readYaml<{
    services: Record<string, { volumes?: string[]; environment?: Record<string, string> }>;
  }>('deploy/compose.yaml');
  const provider = await readYaml<{ providers: { options: { path: string } }[] }>(
    'deploy/grafana/provisioning/dashboards/relayops.yaml',
  );
  const folder = provider.providers[0]!.options.path;
  expect(services['grafana']?.volumes).toContain(`./grafana/dashboards:${folder}:ro`);
  const home = services['grafana']?.environment?.['GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH'];
  expect(files.map((file) => `${folder}/${path.basename(file)}`)).toContain(home);
  const { datasources } = await readYaml<{ datasources: { url: string }[] }>(
    'deploy/grafana/provisioning/datasources/prometheus.yaml',
  );
  expect(Object.keys(services)).toContain(new URL(datasources[0]!.url).hostname);
});
