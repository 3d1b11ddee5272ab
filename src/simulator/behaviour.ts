import type { FieldProblem } from '../shared/errors.ts';

/** What a receiver does with a request. `drop` comes first, then `hang`, `reset`, and only then an answer. */
export interface Behaviour {
  readonly status: readonly number[];
  readonly loop: boolean;
  readonly per: 'receiver' | 'delivery';
  readonly latencyMs: number;
  readonly jitterMs: number;
  readonly flaky: number;
  readonly drop: number;
  readonly seed: string;
  readonly hang: boolean;
  readonly reset: boolean;
  readonly body: string | undefined;
  readonly contentType: string | undefined;
  readonly bodyBytes: number | undefined;
  readonly endless: boolean;
  readonly dripMs: number;
  readonly encoding: Encoding | undefined;
  readonly bomb: boolean;
  readonly redirect: string | undefined;
  readonly retryAfter: string | undefined;
}

export const ENCODINGS = ['gzip', 'br', 'deflate'] as const;
export type Encoding = (typeof ENCODINGS)[number];

/** How a behaviour may be given in code and in JSON: text as in the query, or the natural type. */
export type BehaviourInput = {
  readonly [K in keyof Behaviour]?: string | number | boolean | readonly number[];
};

type Parsed<T> = { readonly value: T } | { readonly reason: string; readonly fix: string };

interface Setting<T> {
  readonly default: T;
  readonly text: string;
  readonly parse: (text: string) => Parsed<T>;
}

const MAX_WAIT_MS = 3_600_000;
const MAX_SEQUENCE = 1_000;
const MAX_BODY_BYTES = 2 ** 40;
const MAX_TEXT = 65_536;

/** Every setting once: default, meaning, and how its text is read. `GET /` of the simulator shows it. */
export const SETTINGS: { readonly [K in keyof Behaviour]: Setting<Behaviour[K]> } = {
  status: {
    default: [200],
    text: 'Status codes in order, e.g. 500,500,200; the last one stays.',
    parse: statusList,
  },
  loop: { default: false, text: 'Start the sequence of status codes again at its end.', parse: flag },
  per: {
    default: 'receiver',
    text: 'What moves the sequence on: each request to the `receiver`, or each request with the same `delivery` ID.',
    parse: oneOf(['receiver', 'delivery']),
  },
  latencyMs: { default: 0, text: 'Pause before the answer.', parse: integer(0, MAX_WAIT_MS) },
  jitterMs: {
    default: 0,
    text: 'Up to so much is added to the pause, by the dice.',
    parse: integer(0, MAX_WAIT_MS),
  },
  flaky: { default: 0, text: 'Share of requests answered 500, by the dice.', parse: share },
  drop: { default: 0, text: 'Share of requests whose connection is closed without an answer.', parse: share },
  seed: {
    default: '',
    text: 'Throws the dice anew: they depend on it, the delivery ID and the repetition.',
    parse: text,
  },
  hang: { default: false, text: 'Never answer.', parse: flag },
  reset: { default: false, text: 'Reset the connection (TCP RST) after the headers.', parse: flag },
  body: {
    default: undefined,
    text: 'Response body with {{deliveryId}}, {{eventId}}, {{attempt}}, {{type}} and {{count}} filled in.',
    parse: text,
  },
  contentType: { default: undefined, text: 'Content-Type of the answer.', parse: headerText },
  bodyBytes: {
    default: undefined,
    text: 'Size of a response body of filler.',
    parse: integer(0, MAX_BODY_BYTES),
  },
  endless: { default: false, text: 'A response body that never ends.', parse: flag },
  dripMs: {
    default: 0,
    text: 'Send the body byte by byte, one each so often.',
    parse: integer(0, MAX_WAIT_MS),
  },
  encoding: { default: undefined, text: 'Content-Encoding of the answer.', parse: oneOf(ENCODINGS) },
  bomb: { default: false, text: 'A small compressed body that becomes 1 GiB.', parse: flag },
  redirect: {
    default: undefined,
    text: 'Location of a redirect; 302 unless the status is another 3xx.',
    parse: headerText,
  },
  retryAfter: { default: undefined, text: 'Retry-After, verbatim.', parse: headerText },
};

const NAMES = Object.keys(SETTINGS) as (keyof Behaviour)[];

export const HEALTHY: Behaviour = Object.fromEntries(
  NAMES.map((name) => [name, SETTINGS[name].default]),
) as unknown as Behaviour;

/** Thrown for settings that make no sense, with all of them at once. */
export class SettingsError extends Error {
  readonly problems: readonly FieldProblem[];

  constructor(problems: readonly FieldProblem[]) {
    super(problems.map((p) => `${p.field} ${p.reason}`).join('; '));
    this.name = 'SettingsError';
    this.problems = problems;
  }
}

/**
 * Reads settings over a base: those not named stay as the base has them.
 * @throws SettingsError naming each unknown, repeated or bad setting
 */
export function readBehaviour(entries: Iterable<readonly [string, string]>, base: Behaviour): Behaviour {
  const values: Record<string, unknown> = {};
  const problems: FieldProblem[] = [];
  for (const [field, given] of entries) {
    const parsed = Object.hasOwn(values, field)
      ? { reason: 'is given twice', fix: 'Give it once.' }
      : Object.hasOwn(SETTINGS, field)
        ? SETTINGS[field as keyof Behaviour].parse(given)
        : { reason: 'is not a known setting', fix: `Use one of ${NAMES.join(', ')}.` };
    if ('reason' in parsed) problems.push({ field, ...parsed });
    else values[field] = parsed.value;
  }
  if (problems.length > 0) throw new SettingsError(problems);
  return { ...base, ...values };
}

/** The entries of a behaviour given as an object, e.g. from JSON; undefined members are left out. */
export function behaviourEntries(input: unknown): [string, string][] {
  if (typeof input !== 'object' || input === null || Array.isArray(input))
    throw new SettingsError([
      { field: 'behaviour', reason: 'is not an object', fix: 'Write {"status": 200}.' },
    ]);
  const problems: FieldProblem[] = [];
  const entries = Object.entries(input).flatMap(([field, value]: [string, unknown]): [string, string][] => {
    if (value === undefined) return [];
    const values: unknown[] = Array.isArray(value) ? value : [value];
    if (values.every((v) => typeof v === 'string' || typeof v === 'number' || typeof v === 'boolean'))
      return [[field, values.join(',')]];
    problems.push({
      field,
      reason: 'is neither text, number, true nor false',
      fix: 'Leave it out, or set it.',
    });
    return [];
  });
  if (problems.length > 0) throw new SettingsError(problems);
  return entries;
}

function integer(min: number, max: number): (text: string) => Parsed<number> {
  return (given) => {
    const value = /^\d{1,15}$/.test(given) ? Number(given) : NaN;
    return value >= min && value <= max
      ? { value }
      : { reason: `is not a whole number from ${min} to ${max}`, fix: 'Write digits only.' };
  };
}

function statusList(given: string): Parsed<readonly number[]> {
  const value = given.split(',').map((part) => (/^[2-5]\d\d$/.test(part.trim()) ? Number(part) : NaN));
  return value.length <= MAX_SEQUENCE && !value.some(Number.isNaN)
    ? { value }
    : {
        reason: `is not a list of at most ${MAX_SEQUENCE} status codes from 200 to 599`,
        fix: 'Write 200, or 500,500,200.',
      };
}

function share(given: string): Parsed<number> {
  if (given === 'true' || given === 'false') return { value: given === 'true' ? 1 : 0 };
  const value = /^\d*\.?\d+$/.test(given) ? Number(given) : NaN;
  return value <= 1
    ? { value }
    : { reason: 'is not a share from 0 to 1', fix: 'Write 0.3, or true for always.' };
}

function flag(given: string): Parsed<boolean> {
  return given === 'true' || given === 'false'
    ? { value: given === 'true' }
    : { reason: 'is neither true nor false', fix: 'Write true or false.' };
}

function oneOf<T extends string>(values: readonly T[]): (text: string) => Parsed<T> {
  return (given) => {
    const value = values.find((candidate) => candidate === given);
    return value === undefined
      ? { reason: 'is not one of the known values', fix: `Use one of ${values.join(', ')}.` }
      : { value };
  };
}

function text(given: string): Parsed<string> {
  return given.length <= MAX_TEXT
    ? { value: given }
    : { reason: `is longer than ${MAX_TEXT} characters`, fix: 'Use bodyBytes for large bodies.' };
}

/** Whatever a header line can carry, so that hostile values can be tried out too. */
function headerText(given: string): Parsed<string> {
  return given.length <= 4_096 && /^[\t\x20-\x7e\x80-\xff]*$/.test(given)
    ? { value: given }
    : {
        reason: 'cannot be sent in a header',
        fix: 'Use at most 4096 characters, none of them a line break or above U+00FF.',
      };
}
