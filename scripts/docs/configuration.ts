import { environmentName, keys, type KeySpec } from '../../src/config/index.ts';
import { code, GENERATED, table } from './markdown.ts';

const TITLES: Readonly<Record<string, string>> = {
  process: 'Process',
  http: 'HTTP API',
  database: 'Database',
  auth: 'Identity and secrets',
  ingest: 'Taking events in',
  delivery: 'Delivery',
  retention: 'Replay and retention',
  client: 'Command line',
  simulator: 'Simulator',
};
/** First parts of keys that share a group with others; the rest are groups of their own. */
const GROUP_OF: Readonly<Record<string, string>> = {
  role: 'process',
  instance: 'process',
  shutdown: 'process',
  log: 'process',
  secrets: 'auth',
  replay: 'retention',
  janitor: 'retention',
};

type Entry = readonly [key: string, spec: KeySpec];

function groups(): Map<string, Entry[]> {
  return Map.groupBy(Object.entries(keys) as Entry[], ([key]) => {
    const first = key.split('.', 1)[0]!;
    const group = GROUP_OF[first] ?? first;
    return TITLES[group] ?? group;
  });
}

export function configurationPage(): string {
  const parts = [
    GENERATED,
    '# Configuration',
    'Every key is read from an environment variable; command-line options go above it where a command has them. The start refuses a value that is out of range, a variable beginning with `RELAYOPS_` that no key has, and combinations that cannot work, and names all problems at once. `relayops config print` shows what is in force, with secrets masked.',
    'Source: [src/config/keys.ts](../src/config/keys.ts). The same as a file to fill in: [.env.example](../.env.example).',
  ];
  for (const [title, entries] of groups()) {
    const rows = entries.map(([key, spec]) => [
      code(key),
      code(environmentName(key)),
      typeOf(spec),
      defaultOf(spec),
      spec.text,
    ]);
    parts.push(`## ${title}`, table(['key', 'variable', 'type', 'default', 'meaning'], rows));
  }
  return parts.join('\n\n') + '\n';
}

export function environmentExample(): string {
  const lines = [
    '# Generated from src/config/keys.ts by `npm run docs`; docs/configuration.md has the same as a table.',
    '# Every key with its default. Copy this file to .env, uncomment what you change, then for example:',
    '#   set -a; . ./.env; set +a; npm start',
  ];
  for (const [title, entries] of groups()) {
    lines.push('', `# ${title} ${'-'.repeat(Math.max(3, 100 - title.length))}`);
    for (const [key, spec] of entries) {
      const notes = [plainType(spec), ...(spec.secret ? ['secret'] : [])].join('; ');
      lines.push('', ...wrap(`${spec.text} (${notes})`), `#${environmentName(key)}=${valueOf(spec)}`);
    }
  }
  return lines.join('\n') + '\n';
}

function typeOf(spec: KeySpec): string {
  return `${plainType(spec, code)}${spec.secret ? ', **secret**' : ''}`;
}

function plainType(spec: KeySpec, format = (text: string): string => text): string {
  if (spec.values) return spec.values.map(format).join(', ');
  const { min, max } = spec;
  if (min !== undefined && max !== undefined) return `${spec.type}, ${min} to ${max}`;
  if (min !== undefined) return `${spec.type}, at least ${min}`;
  return spec.type === 'list' ? 'list, separated by commas' : spec.type;
}

function defaultOf(spec: KeySpec): string {
  const value = valueOf(spec);
  if (value === '') return 'empty';
  return code(value) + (spec.unit ? ` ${spec.unit}${inWords(spec)}` : '');
}

function valueOf({ default: value }: KeySpec): string {
  if (value === null) return '';
  return typeof value === 'object' ? value.join(',') : String(value);
}

/** Large numbers again in a unit that a person reads. */
function inWords({ default: value, unit }: KeySpec): string {
  if (typeof value !== 'number') return '';
  const scales = unit === undefined ? undefined : SCALES[unit];
  const scale = scales?.find(([size]) => value >= size && value % size === 0);
  return scale ? ` (${value / scale[0]} ${scale[1]})` : '';
}

const SCALES: Readonly<Record<string, readonly (readonly [number, string])[]>> = {
  ms: [
    [86_400_000, 'd'],
    [3_600_000, 'h'],
    [60_000, 'min'],
    [1_000, 's'],
  ],
  s: [
    [86_400, 'd'],
    [3_600, 'h'],
    [60, 'min'],
  ],
  bytes: [
    [1_048_576, 'MiB'],
    [1_024, 'KiB'],
  ],
};

function wrap(text: string): string[] {
  const lines: string[] = [];
  let line = '#';
  for (const word of text.split(' ')) {
    if (line.length + word.length > 110) {
      lines.push(line);
      line = '#';
    }
    line += ` ${word}`;
  }
  return [...lines, line];
}
