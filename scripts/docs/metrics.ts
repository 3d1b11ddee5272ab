import { createMetrics } from '../../src/platform/telemetry/metrics.ts';
import { code, GENERATED, table } from './markdown.ts';

/** What prom-client's metrics have at run time; its types show only a part of it. */
interface MetricShape {
  readonly name: string;
  readonly help: string;
  readonly type: string;
  readonly labelNames: readonly string[];
}

/** prom-client's own metrics of the process differ from one operating system to the next. */
const DEFAULT_METRIC = /^relayops_(process|nodejs)_/;

export function metricsPage(): string {
  const { registry } = createMetrics();
  const metrics = (registry.getMetricsAsArray() as unknown as MetricShape[]).filter(
    ({ name }) => !DEFAULT_METRIC.test(name),
  );
  const rows = metrics.map(({ name, type, labelNames, help }) => [
    code(name),
    type,
    // `le` is the bucket bound that every histogram has.
    labelNames
      .filter((label) => label !== 'le')
      .map(code)
      .join(', '),
    help,
  ]);
  return (
    [
      GENERATED,
      '# Metrics',
      '`GET /metrics` in the Prometheus text format, for each process on its own: sum counters over processes. Labels come from bounded sets; a tenant, an endpoint or an event is never a label. Besides these there are the usual metrics of a Node process, `relayops_process_…` and `relayops_nodejs_…`.',
      table(['name', 'type', 'labels', 'meaning'], rows),
      'Source: [src/platform/telemetry/metrics.ts](../src/platform/telemetry/metrics.ts).',
    ].join('\n\n') + '\n'
  );
}
