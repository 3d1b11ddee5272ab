import { Environment } from '@marcbachmann/cel-js';
import { cheapForm, type CheapForm } from './in-place.ts';
import { registerMixedArithmetic } from './numbers.ts';

/** The expression does not parse, does not check, is too large, or does not yield what is wanted. The message is for its author. */
export class ExpressionError extends Error {
  constructor(message: string, cause?: unknown) {
    super(message, { cause });
    this.name = 'ExpressionError';
  }
}

/** What a filter may look at. `payload` is the parsed JSON body, or null when the body is not JSON. */
export interface FilterScope {
  readonly event: { readonly id: string; readonly type: string };
  readonly payload: unknown;
}

/** A checked filter. */
export interface Filter {
  readonly source: string;
  /** Set when it is cheap on payloads that `isCheapOn` lets through; null: it runs in a worker thread. */
  readonly cheap: CheapForm | null;
  /** @throws ExpressionError when it cannot be evaluated on this event, e.g. because a field is missing */
  matches(scope: FilterScope): boolean;
}

/** Longest expression source, in characters. */
export const MAX_EXPRESSION_LENGTH = 4_096;

/** Macros may follow each other but not nest: walking a list for each element of a list is slow on any list. */
const MAX_MACROS = 4;
const MACROS = new Set(['all', 'exists', 'exists_one', 'map', 'filter']);

/**
 * CEL always ends: there are no loops but macros over finite lists. How long it takes depends on the payload, and can be seconds:
 * only what in-place.ts lets through runs on the event loop. See docs/adr/0003-expression-language.md.
 */
const environment = registerMixedArithmetic(
  new Environment({
    unlistedVariablesAreDyn: false,
    homogeneousAggregateLiterals: false,
    limits: {
      maxAstNodes: 250,
      maxDepth: 32,
      maxListElements: 256,
      maxMapEntries: 256,
      maxCallArguments: 16,
    },
  }),
)
  .registerVariable('event', 'map')
  .registerVariable('payload', 'dyn');

/** Compiles and type-checks a filter once, when it is saved or loaded. @throws ExpressionError */
export function compileFilter(source: string): Filter {
  if (source.length > MAX_EXPRESSION_LENGTH)
    throw new ExpressionError(`is longer than ${MAX_EXPRESSION_LENGTH} characters`);
  const program = attempt(() => environment.parse(source));
  checkCost(program.ast);
  const check = program.check();
  if (!check.valid)
    throw new ExpressionError(firstLine(check.error?.message ?? 'does not check'), check.error);
  if (check.type !== 'bool' && check.type !== 'dyn')
    throw new ExpressionError(`yields ${check.type}, not bool`);
  return {
    source,
    cheap: cheapForm(program.ast),
    matches: (scope) => {
      const result: unknown = attempt(() => program(scope as unknown as Record<string, unknown>) as unknown);
      if (typeof result !== 'boolean') throw new ExpressionError('did not yield a bool');
      return result;
    },
  };
}

/** @throws ExpressionError for what could hold up acceptance: nested or many macros, and regular expressions, which backtrack here */
function checkCost(ast: unknown): void {
  let macros = 0;
  const visit = (node: unknown, inMacro: boolean): void => {
    if (Array.isArray(node)) return node.forEach((item) => visit(item, inMacro));
    if (typeof node !== 'object' || node === null) return;
    const { op, args } = node as { op?: unknown; args?: unknown };
    if (op !== 'rcall' || !Array.isArray(args)) return visit(args, inMacro);
    const [name, target, given] = args as [string, unknown, unknown];
    if (name === 'matches') throw new ExpressionError('uses matches(): use startsWith, endsWith or contains');
    const isMacro = MACROS.has(name);
    if (isMacro && inMacro) throw new ExpressionError(`nests ${name}() in another macro`);
    if (isMacro && ++macros > MAX_MACROS) throw new ExpressionError(`has more than ${MAX_MACROS} macros`);
    visit(target, inMacro);
    visit(given, inMacro || isMacro);
  };
  visit(ast, false);
}

function attempt<T>(work: () => T): T {
  try {
    return work();
  } catch (error) {
    throw new ExpressionError(firstLine(error instanceof Error ? error.message : String(error)), error);
  }
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? text;
}
