import os from 'node:os';
import type { BenchObject, Verdict } from './run.ts';
import type { TransportName } from './scenario.ts';

const STAGE = {
  postgres: 'load, RelayOps, PostgreSQL and receiver share the machine',
  rabbitmq:
    'load, RelayOps, PostgreSQL, RabbitMQ (one node, quorum queues), Redis and receiver share the machine',
} as const;

/** A scenario with what sets a run of it apart. */
export function titleOf({ scenario, workers }: BenchObject): string {
  return workers === 1 ? scenario : `${scenario}, ${workers} workers`;
}

/** The report of all runs as Markdown. @param plot the SVG file beside it */
export function renderReport(
  results: readonly { object: BenchObject; verdicts: readonly Verdict[]; text: string }[],
  commit: string,
  transport: TransportName,
  plot: string,
): string {
  const command = `npm run bench -- --report${transport === 'postgres' ? '' : ` --transport ${transport}`}`;
  const lines = [
    transport === 'postgres' ? '# Benchmarks' : '# Benchmarks with RabbitMQ and Redis',
    '',
    `Measured at commit ${commit} on ${os.cpus().length} cores (${os.cpus()[0]?.model ?? 'unknown'}), Node ${process.version}, embedded PostgreSQL with fsync and`,
    `\`synchronous_commit\` on; ${STAGE[transport]}. Absolute figures vary from run to run; ratios to the`,
    `yardstick of the same run are what counts. Made by \`${command}\`.`,
    '',
    `![measured against target](${plot})`,
    '',
    '| scenario | field | target | measured | |',
    '|---|---|---|---|---|',
    ...results.flatMap(({ object, verdicts }) =>
      verdicts.map(
        (v) =>
          `| ${titleOf(object)} | ${v.field} | ${v.bound} | ${v.measured} | ${v.met ? 'met' : '**missed**'} |`,
      ),
    ),
    '',
  ];
  for (const { object, text } of results) {
    lines.push(
      `## ${titleOf(object)}`,
      '',
      text + '.',
      '',
      '```json',
      JSON.stringify(object, null, 2),
      '```',
      '',
    );
  }
  return lines.join('\n');
}

const BAR = { left: 230, width: 420, height: 18, gap: 8 };

/** A bar for each target: how far the measured figure is along, the target being the line. */
export function renderPlot(
  rows: readonly { readonly label: string; readonly share: number; readonly met: boolean }[],
): string {
  const height = rows.length * (BAR.height + BAR.gap) + 40;
  const line = BAR.left + BAR.width / 2;
  const bars = rows.map(({ label, share, met }, index) => {
    const y = 20 + index * (BAR.height + BAR.gap);
    const width = Math.min(BAR.width, (Math.max(0, share) * BAR.width) / 2);
    return [
      `<text x="${BAR.left - 8}" y="${y + 13}" text-anchor="end">${label}</text>`,
      `<rect x="${BAR.left}" y="${y}" width="${width.toFixed(1)}" height="${BAR.height}" fill="${met ? '#2f855a' : '#c05621'}"/>`,
      `<text x="${BAR.left + width + 6}" y="${y + 13}">${(share * 100).toFixed(0)} %${met ? '' : ' (missed)'}</text>`,
    ].join('');
  });
  return [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${BAR.left + BAR.width + 110}" height="${height}" font-family="sans-serif" font-size="12">`,
    '<rect width="100%" height="100%" fill="white"/>',
    ...bars,
    `<line x1="${line}" x2="${line}" y1="10" y2="${height - 20}" stroke="black" stroke-dasharray="4 3"/>`,
    `<text x="${line}" y="${height - 6}" text-anchor="middle">target = 100 %</text>`,
    '</svg>',
    '',
  ].join('\n');
}

/** Measured in relation to the target: above 1 is better than asked, whichever direction is better. */
export function shareOfTarget(verdict: Verdict): number {
  const bound = Number(verdict.bound.slice(2));
  return verdict.bound.startsWith('≥') ? verdict.measured / bound : bound / Math.max(verdict.measured, 1e-9);
}
