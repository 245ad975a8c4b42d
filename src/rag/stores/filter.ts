/** Filters over attributes of chunks, in the form of OpenAI's vector stores. */
import type { Attributes } from "#rag/texts";

/** One attribute against a value, or a list of them. */
export interface Comparison {
  readonly type: "eq" | "ne" | "gt" | "gte" | "lt" | "lte" | "in" | "nin";
  readonly key: string;
  readonly value: string | number | boolean | readonly (string | number)[];
}

/** All of the filters, or one of them. */
export interface Compound {
  readonly type: "and" | "or";
  readonly filters: readonly Filter[];
}

/** Which chunks are looked at, by their attributes. */
export type Filter = Comparison | Compound;

/**
 * Whether a chunk of these attributes passes: the definition that every store is tested against. An
 * attribute that is absent, or of another type than the value, passes `ne` and `nin` alone.
 */
export function passes(filter: Filter, attributes: Attributes): boolean {
  if (filter.type === "and") return filter.filters.every((one) => passes(one, attributes));
  if (filter.type === "or") return filter.filters.some((one) => passes(one, attributes));
  const { type, key, value } = filter as Comparison;
  const own = Object.hasOwn(attributes, key) ? attributes[key] : undefined;
  if (Array.isArray(value)) {
    const isListed = value.some((one) => one === own);
    return type === "in" ? isListed : type === "nin" && !isListed;
  }
  if (type === "eq" || type === "ne") return (own === value) === (type === "eq");
  return isOrdered(own, value) && compares(type, own, value);
}

function isOrdered(own: unknown, value: unknown): own is number | string {
  return typeof own === typeof value && (typeof own === "number" || typeof own === "string");
}

function compares(type: Comparison["type"], own: number | string, value: unknown): boolean {
  const wanted = value as typeof own;
  if (type === "gt") return own > wanted;
  if (type === "gte") return own >= wanted;
  if (type === "lt") return own < wanted;
  return type === "lte" && own <= wanted;
}
