/** Lists in pages, with cursors as OpenAI's API has them. */
import { fieldError, parseRequest } from "#server";
import { type IdKind, serialOf } from "./identifiers.ts";
import { PageQuery } from "./request-params.ts";

/** How a list is asked for. */
export interface PageRequest {
  readonly limit: number;
  readonly order: "asc" | "desc";
  /** Places in the order of creation; null: no bound. */
  readonly after: number | null;
  readonly before: number | null;
}

interface PageRules {
  /** Of the list's ids. */
  readonly kind: IdKind;
  readonly limitDefault: number;
  readonly limitMax: number;
}

/** Reads a query that has the fields of a page alone. Throws INVALID_ARGUMENT. */
export function pageRequest(query: unknown, rules: PageRules): PageRequest {
  const { limit, order = "desc", after, before } = parseRequest(PageQuery, query);
  const count = limit === undefined ? rules.limitDefault : Number(limit);
  if (count < 1 || count > rules.limitMax) {
    throw fieldError("limit", `must be 1 to ${rules.limitMax}, current value is ${limit}`);
  }
  const { kind } = rules;
  return {
    ...{ limit: count, order },
    after: place("after", after, kind),
    before: place("before", before, kind),
  };
}

function place(name: string, id: string | undefined, kind: IdKind): number | null {
  if (id === undefined) return null;
  const serial = serialOf(kind, id);
  if (serial === null) throw fieldError(name, "must be the id of an object in the list");
  return serial;
}

/** A query's field of a name, and the other fields. */
export function without<Name extends string>(
  query: unknown,
  name: Name,
): readonly [own: Partial<Record<Name, unknown>>, rest: object] {
  // Of a class of the framework's own, so that no name in a query is one of a prototype.
  const { [name]: value, ...rest } = { ...(query as Readonly<Record<string, unknown>>) };
  return [value === undefined ? {} : ({ [name]: value } as Record<Name, unknown>), rest];
}

/** One page of a list. */
export interface Page<Item> {
  readonly items: readonly Item[];
  /** Whether the list goes on in the direction of the page. */
  readonly more: boolean;
}

/** The page of a list that is in its order of creation. */
export function pageOf<Item extends { readonly serial: number }>(
  list: readonly Item[],
  { limit, order, after, before }: PageRequest,
): Page<Item> {
  const ordered = order === "asc" ? list : [...list].reverse();
  const isBehind = (item: Item, place: number) =>
    order === "asc" ? item.serial > place : item.serial < place;
  const within = ordered.filter(
    (item) =>
      (after === null || isBehind(item, after)) &&
      (before === null || (item.serial !== before && !isBehind(item, before))),
  );
  // With `before` alone the page ends at the cursor.
  const fromEnd = before !== null && after === null;
  const items = fromEnd ? within.slice(-limit) : within.slice(0, limit);
  return { items, more: within.length > items.length };
}

/** A page in the API's form. */
export function pageBody<Item>(
  { items, more }: Page<Item>,
  body: (item: Item) => { readonly id: string },
): object {
  const data = items.map(body);
  return {
    ...{ object: "list", data, has_more: more },
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
  };
}
