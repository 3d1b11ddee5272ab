import { createMetrics } from '../../src/platform/telemetry/metrics.ts';

/** What prom-client's metrics have at run time; its types show only a part of it. */
interface MetricShape {
  readonly name: string;
  readonly type: 'counter' | 'gauge' | 'histogram' | 'summary';
  readonly labelNames: readonly string[];
}

/** Labels that Prometheus itself, Kubernetes' discovery or our scrape configuration gives every series. */
const TARGET_LABELS = ['job', 'instance', 'namespace'];
const KEYWORDS = new Set(
  'by without on ignoring group_left group_right and or unless bool offset'.split(' '),
);
const GROUPING = /\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)/g;

/** Every series that a process can have, and its labels. */
export function knownSeries(): ReadonlyMap<string, readonly string[]> {
  const known = new Map<string, readonly string[]>([['up', TARGET_LABELS]]);
  for (const { name, type, labelNames } of registered()) {
    const labels = [...labelNames, ...TARGET_LABELS];
    if (type === 'histogram') {
      known.set(`${name}_bucket`, [...labels, 'le']);
      known.set(`${name}_sum`, labels);
      known.set(`${name}_count`, labels);
    } else known.set(name, labels);
  }
  return known;
}

/** Names of RelayOps's own metrics, without those that every Node process has. */
export function ownMetrics(): string[] {
  return registered()
    .map(({ name }) => name)
    .filter((name) => !/^relayops_(process|nodejs)_/.test(name));
}

function registered(): readonly MetricShape[] {
  return createMetrics().registry.getMetricsAsArray() as unknown as MetricShape[];
}

export interface Usage {
  /** Series with the labels that are matched on them. */
  readonly series: readonly { readonly name: string; readonly labels: readonly string[] }[];
  /** Labels that results are grouped or joined by. */
  readonly grouped: readonly string[];
}

/** What a PromQL expression names. promtool checks that it is one; this only finds the names in it. */
export function usageOf(expression: string): Usage {
  const text = expression.replace(/"(?:[^"\\]|\\.)*"/g, '""');
  const grouped = [...text.matchAll(GROUPING)].flatMap(([, labels = '']) => words(labels));
  const bare = text.replace(GROUPING, ' ').replace(/\[[^\]]*\]/g, ' ');
  const series = [...bare.matchAll(/(?<!\w)([a-zA-Z_:][\w:]*)\s*(\(|\{[^}]*\})?/g)].flatMap(
    ([, name = '', after]) => {
      if (after === '(' || KEYWORDS.has(name)) return [];
      return [
        { name, labels: [...(after ?? '').matchAll(/(\w+)\s*(?:=~|!~|!=|=)/g)].map(([, label]) => label!) },
      ];
    },
  );
  return { series, grouped };
}

function words(text: string): string[] {
  return text
    .split(',')
    .map((word) => word.trim())
    .filter((word) => word !== '');
}

/** What an expression names that does not exist, in words. */
export function unknownNames(expression: string, known = knownSeries()): string[] {
  const { series, grouped } = usageOf(expression);
  const wrong = series.flatMap(({ name, labels }) => {
    const has = known.get(name);
    if (has === undefined) return [`no series ${name}`];
    return labels.filter((label) => !has.includes(label)).map((label) => `${name} has no label ${label}`);
  });
  const any = new Set(series.flatMap(({ name }) => known.get(name) ?? []));
  return [
    ...wrong,
    ...grouped.filter((label) => !any.has(label)).map((label) => `no series here has the label ${label}`),
    ...(series.length === 0 ? ['no series at all'] : []),
  ];
}
