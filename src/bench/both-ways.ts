import type { Config } from '../config/index.ts';
import type { BenchContext, ScenarioOutcome } from './scenario.ts';

/**
 * On RabbitMQ a process with both roles delivers what it accepts without the broker, while it has room: measures that, and then with every delivery through the broker,
 * as it is between processes of one role each.
 * @param fields those of which the second figure is wanted; its name ends in `ViaBroker`
 */
export async function bothWays(
  context: BenchContext,
  fields: readonly string[],
  measure: (overrides: Partial<Config>) => Promise<ScenarioOutcome>,
): Promise<ScenarioOutcome> {
  const outcome = await measure({});
  if (context.transport !== 'rabbitmq') return outcome;
  const other = await measure({ 'rabbitmq.handOver': false });
  return {
    ...outcome,
    ...Object.fromEntries(fields.map((field) => [`${field}ViaBroker`, other[field]!])),
    lost: outcome.lost + other.lost,
    duplicates: outcome.duplicates + other.duplicates,
  };
}
