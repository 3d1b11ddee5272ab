/**
 * One way to say that something is wrong. The domain names what happened (`code`) and which sort of thing it is (`kind`);
 * only platform/http knows which HTTP status a kind has. Every definition registers itself, so that docs/errors.md is
 * generated from the same table.
 */
export type ErrorKind =
  | 'invalid'
  | 'timeout'
  | 'unauthenticated'
  | 'forbidden'
  | 'not_found'
  | 'method_not_allowed'
  | 'conflict'
  | 'too_large'
  | 'unsupported_media_type'
  | 'expectation_failed'
  | 'rate_limited'
  | 'headers_too_large'
  | 'unavailable'
  | 'internal';

/** One thing wrong with one field: where (JSON pointer or parameter name), why, and what to do. */
export interface FieldProblem {
  readonly field: string;
  readonly reason: string;
  readonly fix?: string;
}

export interface ErrorDefinition {
  /** Stable, upper snake case; clients may switch on it. */
  readonly code: string;
  readonly kind: ErrorKind;
  /** One short sentence, the same for every occurrence. */
  readonly title: string;
  /** What the caller can do about it. */
  readonly fix: string;
}

export interface ErrorOccurrence {
  readonly detail?: string;
  readonly fields?: readonly FieldProblem[];
  /** Whole seconds after which a retry makes sense. */
  readonly retryAfterSeconds?: number;
  /** Methods that the path takes, where this is about the method. */
  readonly allow?: readonly string[];
  /** Further members of the problem document, e.g. the ID of the original event. Never a secret. */
  readonly extra?: Readonly<Record<string, unknown>>;
  readonly cause?: unknown;
}

const registry = new Map<string, ErrorDefinition>();

/** An expected failure with a documented code. Unexpected ones stay plain errors and become 500 without detail. */
export class RelayError extends Error {
  readonly definition: ErrorDefinition;
  readonly occurrence: ErrorOccurrence;

  constructor(definition: ErrorDefinition, occurrence: ErrorOccurrence = {}) {
    super(occurrence.detail ?? definition.title, { cause: occurrence.cause });
    this.name = 'RelayError';
    this.definition = definition;
    this.occurrence = occurrence;
  }

  get code(): string {
    return this.definition.code;
  }

  get kind(): ErrorKind {
    return this.definition.kind;
  }
}

/** Registers an error code. Throws when the code is taken, so that two features cannot mean two things by one code. */
export function defineError(definition: ErrorDefinition): (occurrence?: ErrorOccurrence) => RelayError {
  if (registry.has(definition.code)) throw new Error(`error code ${definition.code} is defined twice`);
  registry.set(definition.code, definition);
  return (occurrence) => new RelayError(definition, occurrence);
}

/** Every registered definition, by code. What docs/errors.md is made of. */
export function errorDefinitions(): ErrorDefinition[] {
  return [...registry.values()].sort((a, b) => a.code.localeCompare(b.code));
}
