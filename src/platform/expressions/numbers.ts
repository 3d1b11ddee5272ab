import type { Environment } from '@marcbachmann/cel-js';

type JsonNumber = number | bigint;

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

const EXACT: Readonly<Record<string, (a: bigint, b: bigint) => bigint | undefined>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => (b !== 0n && a % b === 0n ? a / b : undefined),
  '%': (a, b) => (b === 0n ? undefined : a % b),
};

const DOUBLE: Readonly<Record<string, (a: number, b: number) => number>> = {
  '+': (a, b) => a + b,
  '-': (a, b) => a - b,
  '*': (a, b) => a * b,
  '/': (a, b) => a / b,
  '%': (a, b) => a % b,
};

/**
 * Arithmetic between integers and fractions, which CEL leaves out. JSON has one kind of number: 30, 30.0 and 3e1 are the same,
 * and a filter must not depend on which of them the sender wrote. Payload numbers are doubles, but for integers beyond
 * 2^53, which are ints (payload.ts); an integer result is exact as far as 64 bits reach.
 */
export function registerMixedArithmetic(environment: Environment): Environment {
  for (const operator of Object.keys(DOUBLE)) {
    const calculate = (a: JsonNumber, b: JsonNumber): JsonNumber => mixed(operator, a, b);
    for (const [left, right] of [
      ['double', 'int'],
      ['int', 'double'],
    ])
      environment.registerOperator(`${left} ${operator} ${right}: double`, calculate);
  }
  environment.registerOperator('double % double: double', (a: number, b: number) => a % b);
  // Between known kinds CEL refuses what it compares between unknown ones.
  // eslint-disable-next-line eqeqeq -- exact between a double and a 64-bit integer, which === is not
  environment.registerOperator('double == int: bool', (a: JsonNumber, b: JsonNumber) => a == b);
  return environment;
}

function mixed(operator: string, a: JsonNumber, b: JsonNumber): JsonNumber {
  if (isUnsafe(a) || isUnsafe(b)) {
    const [x, y] = [toInteger(a), toInteger(b)];
    const exact = x === undefined || y === undefined ? undefined : EXACT[operator]!(x, y);
    if (exact !== undefined && exact >= INT64_MIN && exact <= INT64_MAX) return fromInteger(exact);
  }
  return DOUBLE[operator]!(Number(a), Number(b));
}

function isUnsafe(n: JsonNumber): boolean {
  return typeof n === 'bigint' && !Number.isSafeInteger(Number(n));
}

function toInteger(n: JsonNumber): bigint | undefined {
  if (typeof n === 'bigint') return n;
  return Number.isSafeInteger(n) ? BigInt(n) : undefined;
}

/** An integer as a payload number: a double as long as that is exact. */
export function fromInteger(n: bigint): JsonNumber {
  const double = Number(n);
  return Number.isSafeInteger(double) ? double : n >= INT64_MIN && n <= INT64_MAX ? n : double;
}
