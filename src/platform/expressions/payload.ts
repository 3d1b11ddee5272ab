import { fromInteger } from './numbers.ts';

/** Larger payloads are not looked into: the time of an evaluation grows with them. */
export const MAX_FILTERED_BYTES = 131_072;

/** Payloads that need the slower way of parsing are parsed in place up to this length, in characters: about 1 ms. */
const MAX_CAREFUL_LENGTH = 8_192;

/** An integer of 16 digits or more may be beyond 2^53. An escape may spell any name. */
const NEEDS_CARE = /\d{16}|constructor|\\u/;

/** Whether `parseForExpressions` would hold the event loop for more than a moment. */
export function isSlowToParse(json: string): boolean {
  return json.length > MAX_CAREFUL_LENGTH && NEEDS_CARE.test(json);
}

/**
 * Parses JSON for expressions. A number is a double; an integer beyond 2^53 is a bigint (CEL's int, 64 bits), so that it
 * compares exactly; beyond 64 bits it is a double. An object that has a member called `constructor` becomes a Map, since
 * the library takes an object's kind from its constructor.
 * @throws SyntaxError
 */
export function parseForExpressions(json: string): unknown {
  if (!NEEDS_CARE.test(json)) return JSON.parse(json) as unknown;
  const reviver = (_key: string, value: unknown, context: { source?: string }): unknown => {
    if (typeof value === 'number') return exactNumber(value, context.source);
    if (typeof value === 'object' && value !== null && Object.hasOwn(value, 'constructor'))
      return new Map(Object.entries(value));
    return value;
  };
  return JSON.parse(json, reviver as Parameters<typeof JSON.parse>[1]) as unknown;
}

function exactNumber(value: number, source: string | undefined): number | bigint {
  const isExact = Number.isSafeInteger(value) || !Number.isInteger(value);
  return isExact || source === undefined || !/^-?\d+$/.test(source) ? value : fromInteger(BigInt(source));
}

/** Steps from the payload, or from `event`, to a value: names of members and positions in lists. */
export type Path = readonly (string | number)[];

/** The value at a path, or undefined where there is none. Looks at own members only. */
export function valueAt(root: unknown, path: Path): unknown {
  let value = root;
  for (const step of path) {
    if (typeof value !== 'object' || value === null) return undefined;
    if (value instanceof Map) value = value.get(step);
    else if (Array.isArray(value)) value = typeof step === 'number' ? (value[step] as unknown) : undefined;
    else value = Object.hasOwn(value, step) ? (value as Record<string, unknown>)[step] : undefined;
  }
  return value;
}

/** The parsed JSON body of an event, or null when it is no JSON or too long to be looked into. */
export function payloadOf(json: string | null): unknown {
  if (json === null) return null;
  try {
    return parseForExpressions(json);
  } catch (error) {
    // Not JSON, or nested deeper than the stack.
    if (error instanceof SyntaxError || error instanceof RangeError) return null;
    throw error;
  }
}
