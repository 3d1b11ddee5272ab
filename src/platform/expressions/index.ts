export {
  compileFilter,
  ExpressionError,
  type Filter,
  type FilterScope,
  MAX_EXPRESSION_LENGTH,
} from './filter.ts';
export { FilterPool, type FilterPoolOptions, type Verdict } from './filter-pool.ts';
export { isCheapOn, scalarKey } from './in-place.ts';
export {
  isSlowToParse,
  MAX_FILTERED_BYTES,
  parseForExpressions,
  type Path,
  payloadOf,
  valueAt,
} from './payload.ts';
