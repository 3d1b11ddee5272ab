import { describe, expect, it } from 'vitest';
import { keys } from '../../src/config/keys.ts';
import { read, readYaml } from './files.ts';
import { unknownNames, usageOf } from './promql.ts';

interface Alert {
  readonly alert: string;
  readonly expr: string;
  readonly labels: { readonly severity: string };
  readonly annotations: Readonly<Record<string, string>>;
}
interface RuleFile {
  readonly groups: readonly { readonly name: string; readonly rules: readonly Alert[] }[];
}
interface RuleTests {
  readonly tests: readonly {
    readonly alert_rule_test: readonly {
      readonly alertname: string;
      readonly exp_alerts: readonly unknown[];
    }[];
  }[];
}

const RULES = 'deploy/prometheus/alerts.yaml';
const TESTS = 'deploy/prometheus/alerts.test.yaml';
const RUNBOOKS = 'docs/runbooks.md';

const alerts = (await readYaml<RuleFile>(RULES)).groups.flatMap(({ rules }) => rules);
const names = alerts.map(({ alert }) => alert);

describe('each alert', () => {
  it.each(alerts.map((alert) => [alert.alert, alert] as const))(
    '%s names series and labels that exist',
    (_name, { expr }) => {
      expect(unknownNames(expr)).toEqual([]);
    },
  );

  it.each(alerts.map((alert) => [alert.alert, alert] as const))(
    '%s says how bad it is, what is the matter with its value, and where to read on',
    (name, { labels, annotations }) => {
      expect(['critical', 'warning', 'info']).toContain(labels.severity);
      expect(annotations['summary']).toMatch(/^\S.{10,}[^.]$/);
      expect(annotations['description']).toContain('$value');
      expect(annotations['runbook_url']).toBe(`${RUNBOOKS}#${name.toLowerCase()}`);
    },
  );

  it('has a name of its own', () => {
    expect(new Set(names).size).toBe(names.length);
  });

  it('has a section in the runbooks, and each section an alert', async () => {
    const sections = [...(await read(RUNBOOKS)).matchAll(/^## (RelayOps\S+)$/gm)].map(([, name]) => name);
    expect(sections).toEqual(names);
  });

  it('is tested with a case in which it fires and one in which it does not', async () => {
    const cases = (await readYaml<RuleTests>(TESTS)).tests.flatMap((one) => one.alert_rule_test);
    const tested = (fires: boolean) =>
      cases.filter(({ exp_alerts }) => exp_alerts.length > 0 === fires).map(({ alertname }) => alertname);
    expect(tested(true)).toEqual(names);
    expect(tested(false)).toEqual(names);
  });
});

it.each([
  ['RelayOpsBacklogNearLimit', 0.8 * keys['ingest.backlogHigh'].default],
  ['RelayOpsOutboxDeep', 0.5 * keys['ingest.outboxHigh'].default],
  ['RelayOpsReadyQueueDeep', 0.5 * keys['ingest.readyHigh'].default],
  ['RelayOpsDeadLetterQueueFull', 0.8 * keys['rabbitmq.deadMaxMessages'].default],
  ['RelayOpsAttemptsSlow', ((2 / 3) * keys['delivery.timeoutMs'].default) / 1000],
])('the threshold of %s follows from the default of its key', (name, threshold) => {
  const { expr } = alerts.find(({ alert }) => alert === name)!;
  expect(Number(/> (\d+)$/.exec(expr.trim())?.[1])).toBeCloseTo(threshold, 6);
});

it('what the rules count on is what the scrape configuration gives', async () => {
  const jobs = (
    await readYaml<{ scrape_configs: { job_name: string; relabel_configs: { target_label: string }[] }[] }>(
      'deploy/prometheus/prometheus.yaml',
    )
  ).scrape_configs;
  expect(jobs.map(({ job_name }) => job_name)).toEqual(['relayops-api', 'relayops-worker']);
  for (const { relabel_configs } of jobs)
    expect(relabel_configs.map(({ target_label }) => target_label)).toContain('namespace');
});

it('the metric that workers are scaled by exists', async () => {
  const { rules } = await readYaml<{
    rules: { external: { seriesQuery: string; metricsQuery: string }[] };
  }>('deploy/prometheus/adapter.yaml');
  for (const { seriesQuery, metricsQuery } of rules.external) {
    expect(unknownNames(seriesQuery)).toEqual([]);
    expect(unknownNames(metricsQuery.replaceAll(',<<.LabelMatchers>>', ''))).toEqual([]);
  }
});

it('names are found in every form of an expression', () => {
  const usage = usageOf(
    'sum by (le, job) (rate(a_bucket{x="}{", y=~"b|c"}[5m] offset 1h)) / on (job) group_left () b > 5 unless c{z!="1"}',
  );
  expect(usage.grouped).toEqual(['le', 'job', 'job']);
  expect(usage.series).toEqual([
    { name: 'a_bucket', labels: ['x', 'y'] },
    { name: 'b', labels: [] },
    { name: 'c', labels: ['z'] },
  ]);
});
