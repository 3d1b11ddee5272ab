import type { ASTNode } from '@marcbachmann/cel-js';
import { type Path, valueAt } from './payload.ts';

/**
 * Which expressions are cheap on every payload, so that they may run on the event loop. What they cost is bounded by their
 * own size (250 nodes): no walk over a list or an object, no comparison of long texts. What the expression is made of is
 * decided once, when it is compiled; what it is used on is looked at for each payload, because payloads have no types.
 */
export interface CheapForm {
  /** Values of the payload that are compared or calculated with. */
  readonly operands: readonly Operand[];
  /** `payload.a.b == "x"`, when the expression is false wherever that is false. */
  readonly equality: Equality | null;
}

export interface Operand {
  readonly path: Path;
  /** `scalar`: no list or object. `sized`: a list as well, of which only the length is taken. `list`: a short list of scalars as well. */
  readonly use: 'scalar' | 'sized' | 'list';
}

export interface Equality {
  readonly path: Path;
  /** What `scalarKey` makes of the literal. */
  readonly key: string;
}

/** Longest text that is compared or searched in place, in characters. */
const MAX_TEXT_LENGTH = 1_024;
/** Longest list of the payload that is searched in place. */
const MAX_LIST_LENGTH = 100;

const BINARY = new Set(['&&', '||', '==', '!=', '<', '<=', '>', '>=', '+', '-', '*', '/', '%']);
const TEXT_METHODS = new Set(['startsWith', 'endsWith', 'contains']);
const CONVERSIONS = new Set(['string', 'int', 'double', 'uint', 'bool', 'type', 'dyn']);

/** @returns null when it cannot be shown that the expression is cheap */
export function cheapForm(ast: ASTNode): CheapForm | null {
  const operands: Operand[] = [];
  return collect(ast, operands) ? { operands, equality: equalityOf(ast) } : null;
}

/** Whether the expression is cheap on this payload. */
export function isCheapOn(form: CheapForm, payload: unknown): boolean {
  return form.operands.every(({ path, use }) => isSmall(valueAt(payload, path), use));
}

/** What an equality with a literal is looked up by: equal values have one key. Null for lists and objects. */
export function scalarKey(value: unknown): string | null {
  if (typeof value === 'string') return `s${value}`;
  if (typeof value === 'number' || typeof value === 'bigint') return `n${value}`;
  if (typeof value === 'boolean') return `b${value}`;
  return value === null ? 'null' : null;
}

function isSmall(value: unknown, use: Operand['use']): boolean {
  if (typeof value === 'string') return value.length <= MAX_TEXT_LENGTH;
  if (typeof value !== 'object' || value === null) return true;
  if (!Array.isArray(value)) return false;
  if (use === 'sized') return true;
  return use === 'list' && value.length <= MAX_LIST_LENGTH && value.every((item) => isSmall(item, 'scalar'));
}

/** Adds the operands of a node. @returns false when the node may be dear */
function collect(node: ASTNode, operands: Operand[]): boolean {
  const path = payloadPath(node);
  if (path !== null) {
    operands.push({ path, use: 'scalar' });
    return true;
  }
  if (isEventField(node)) return true;
  const { op } = node;
  if (BINARY.has(op)) return (node.args as ASTNode[]).every((side) => collect(side, operands));
  if (op === 'value') return !(node.args instanceof Uint8Array);
  if (op === '!_' || op === '-_') return collect(node.args, operands);
  if (op === '?:') return node.args.every((part) => collect(part, operands));
  if (op === 'in') return collectMembership(node.args, operands);
  if (op === 'call') return collectCall(node.args, operands);
  return op === 'rcall' && collectMethod(node.args, operands);
}

function collectMembership([item, list]: readonly [ASTNode, ASTNode], operands: Operand[]): boolean {
  if (!collect(item, operands)) return false;
  if (list.op === 'list') return list.args.every((entry) => entry.op === 'value');
  return collectAs('list', list, operands);
}

function collectCall([name, args]: readonly [string, ASTNode[]], operands: Operand[]): boolean {
  if (name === 'has') return args.length === 1 && payloadPath(args[0]!) !== null;
  if (name === 'size') return args.length === 1 && collectAs('sized', args[0]!, operands);
  return CONVERSIONS.has(name) && args.every((arg) => collect(arg, operands));
}

function collectMethod(
  [name, target, args]: readonly [string, ASTNode, ASTNode[]],
  operands: Operand[],
): boolean {
  if (name === 'size') return args.length === 0 && collectAs('sized', target, operands);
  return TEXT_METHODS.has(name) && [target, ...args].every((arg) => collect(arg, operands));
}

function collectAs(use: Operand['use'], node: ASTNode, operands: Operand[]): boolean {
  const path = payloadPath(node);
  if (path === null) return false;
  operands.push({ path, use });
  return true;
}

/** `payload.a["b"][0]` → its steps; null for any other node, and for the payload as a whole where something follows from it. */
function payloadPath(node: ASTNode): Path | null {
  const steps: (string | number)[] = [];
  let at = node;
  while (at.op === '.' || at.op === '[]') {
    const [target, step] = at.args as [ASTNode, string | ASTNode];
    const literal = typeof step === 'string' ? step : step.op === 'value' ? step.args : null;
    if (typeof literal === 'bigint' && literal >= 0n && literal < 2n ** 31n) steps.unshift(Number(literal));
    else if (typeof literal === 'string') steps.unshift(literal);
    else return null;
    at = target;
  }
  return at.op === 'id' && at.args === 'payload' ? steps : null;
}

function isEventField(node: ASTNode): boolean {
  if (node.op !== '.') return false;
  const [target] = node.args;
  return target.op === 'id' && target.args === 'event';
}

/** Every part of a conjunction must hold, so one equality in it is enough to rule an event out. */
function equalityOf(node: ASTNode): Equality | null {
  if (node.op === '&&') {
    const [left, right] = node.args;
    return equalityOf(left) ?? equalityOf(right);
  }
  if (node.op !== '==') return null;
  const [left, right] = node.args;
  return literalEquality(left, right) ?? literalEquality(right, left);
}

function literalEquality(field: ASTNode, literal: ASTNode): Equality | null {
  const path = payloadPath(field);
  const key = literal.op === 'value' ? scalarKey(literal.args) : null;
  return path === null || path.length === 0 || key === null ? null : { path, key };
}
