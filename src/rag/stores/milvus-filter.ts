/**
 * Filters as Milvus's expressions. Servers differ in what a comparison with an absent attribute or
 * one of another type gives, and in what `not` makes of that; so each type of value has names of
 * its own (`storedAttributes`), no `not` stands before a comparison, and absence is asked for.
 */
import type { Attributes } from "#rag/texts";
import type { Comparison, Filter } from "./filter.ts";

type Scalar = string | number | boolean;

/** The field of a chunk's attributes. */
export const ATTRIBUTES_FIELD = "attributes";
/** All keys pass, for none is empty; `true` and `false` are not known to all servers. */
const ALL = 'key != ""';
const NONE = 'key == ""';
const OPERATORS = { eq: "==", ne: "!=", gt: ">", gte: ">=", lt: "<", lte: "<=" } as const;

/** Attributes as they are stored: the first letter of a name is its value's type. */
export function storedAttributes(attributes: Attributes): Record<string, Scalar> {
  const entries = Object.entries(attributes);
  return Object.fromEntries(entries.map(([key, value]) => [storedName(key, value), value]));
}

/** The reverse of `storedAttributes`. */
export function readAttributes(stored: Readonly<Record<string, unknown>>): Attributes {
  const entries = Object.entries(stored).map(([name, value]) => {
    const key = name.slice(2);
    // Servers may give whole numbers back as texts or big integers.
    return [key, name.startsWith("n_") ? Number(value) : value] as const;
  });
  return Object.fromEntries(entries) as Attributes;
}

/** The expression of a filter; `hasLists`: the server compares attributes with lists. */
export function expressionOf(filter: Filter | null, hasLists: boolean): string {
  if (filter === null) return ALL;
  if (filter.type === "and" || filter.type === "or") {
    const parts = filter.filters.map((one) => expressionOf(one, hasLists));
    return joined(parts, filter.type);
  }
  return comparisonOf(filter as Comparison, hasLists);
}

/** A text as a literal, of which no part can end it. */
export function textLiteral(text: string): string {
  const escapes: Readonly<Record<string, string>> = {
    "\\": "\\\\",
    '"': '\\"',
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
  };
  return `"${text.replace(/[\\"\n\r\t]/g, (character) => escapes[character] ?? "")}"`;
}

/** Parts in pairs of pairs, since servers bound how deep an expression is. */
export function joined(parts: readonly string[], operator: "and" | "or"): string {
  const [first] = parts;
  if (first === undefined) return operator === "and" ? ALL : NONE;
  if (parts.length === 1) return first;
  const middle = Math.ceil(parts.length / 2);
  const left = joined(parts.slice(0, middle), operator);
  return `(${left} ${operator} ${joined(parts.slice(middle), operator)})`;
}

function comparisonOf({ type, key, value }: Comparison, hasLists: boolean): string {
  if (typeof value === "object") return listingOf(key, value, { isIn: type === "in", hasLists });
  const isOrder = type !== "eq" && type !== "ne";
  if (type === "in" || type === "nin" || (isOrder && typeof value === "boolean")) return NONE;
  const path = pathOf(key, value);
  const comparison = `${path} ${OPERATORS[type]} ${literalOf(value)}`;
  return type === "ne" ? `(not exists ${path} or ${comparison})` : comparison;
}

/** Values of a list, apart by their types, which have names of their own. */
function listingOf(
  key: string,
  values: readonly Scalar[],
  { isIn, hasLists }: { readonly isIn: boolean; readonly hasLists: boolean },
): string {
  const types = [
    values.filter((value) => typeof value === "string"),
    values.filter((value) => typeof value === "number"),
  ];
  const parts = types.flatMap((same) => {
    const [first] = same;
    if (first === undefined) return [];
    const path = pathOf(key, first);
    const compared = (operator: string) =>
      same.map((one) => `${path} ${operator} ${literalOf(one)}`);
    if (isIn) return hasLists ? [`${path} in [${same.map(literalOf)}]`] : compared("==");
    const differs = hasLists
      ? `${path} not in [${same.map(literalOf)}]`
      : joined(compared("!="), "and");
    return [`(not exists ${path} or ${differs})`];
  });
  return joined(parts, isIn ? "or" : "and");
}

function storedName(key: string, value: Scalar): string {
  return `${(typeof value).slice(0, 1)}_${key}`;
}

function pathOf(key: string, value: Scalar): string {
  return `${ATTRIBUTES_FIELD}[${textLiteral(storedName(key, value))}]`;
}

/** Whole numbers beyond 64 bits have an exponent: they are read as floating point then. */
function literalOf(value: Scalar): string {
  if (typeof value === "string") return textLiteral(value);
  if (typeof value === "number" && Math.abs(value) > Number.MAX_SAFE_INTEGER) {
    return value.toExponential();
  }
  return String(value);
}
