import Type, { type TSchema } from 'typebox';
import { cursorInvalid, decodeCursor, encodeCursor } from './cursor.ts';
import { isId } from '../../shared/ids.ts';

/** Query of every list: newest first, `limit` rows, from the cursor that the page before gave. */
export const PageQuery = Type.Object(
  {
    limit: Type.Integer({ minimum: 1, maximum: 200, default: 50, description: 'Rows on a page.' }),
    cursor: Type.Optional(Type.String({ description: '`nextCursor` of the page before.' })),
  },
  { additionalProperties: false },
);
export type PageQuery = Type.Static<typeof PageQuery>;

export interface Page<Item> {
  readonly data: Item[];
  readonly nextCursor: string | null;
}

export function pageOf<Item extends TSchema>(item: Item) {
  return Type.Object({
    data: Type.Array(item),
    nextCursor: Type.Union([Type.String(), Type.Null()], {
      description: 'Where the next page begins; null on the last one.',
    }),
  });
}

/**
 * The ID after which a page begins, or null for the first page. Lists here are keyed by one UUIDv7, which is unique, so that
 * neither equal times nor new rows shift a page.
 * @throws CURSOR_INVALID
 */
export function idAfter(query: PageQuery): string | null {
  if (query.cursor === undefined) return null;
  const [id] = decodeCursor(query.cursor, 1);
  if (id === undefined || !isId(id)) throw cursorInvalid();
  return id;
}

/** Makes a page of rows that were read with one row more than the limit, which tells whether there is another page. */
export function toPage<Row, Item>(
  rows: readonly Row[],
  limit: number,
  idOf: (row: Row) => string,
  toItem: (row: Row) => Item,
): Page<Item> {
  const shown = rows.slice(0, limit);
  const last = shown.at(-1);
  return {
    data: shown.map(toItem),
    nextCursor: rows.length > limit && last !== undefined ? encodeCursor([idOf(last)]) : null,
  };
}
