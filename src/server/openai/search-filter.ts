/** Filters over attributes of files, and options of ranking, as OpenAI's API has them. */
import { z } from "zod";

/** One attribute against a value, or a list of them. */
export interface AttributeComparison {
  readonly type: "eq" | "ne" | "gt" | "gte" | "lt" | "lte" | "in" | "nin";
  readonly key: string;
  readonly value: string | number | boolean | readonly (string | number)[];
}

/** All of the filters, or one of them. */
export interface CompoundFilter {
  readonly type: "and" | "or";
  readonly filters: readonly SearchFilter[];
}

export type SearchFilter = AttributeComparison | CompoundFilter;

const ORDERS = ["gt", "gte", "lt", "lte"];
const LISTS = ["in", "nin"];
const COMPARISONS = ["eq", "ne", ...ORDERS, ...LISTS];
/** Names of attributes, as they can be given to files. */
export const ATTRIBUTE_NAME = /^[\w-]{1,64}$/;
/** UTF-16 units of an attribute's text. */
export const ATTRIBUTE_LENGTH_MAX = 512;
const LEVELS_MAX = 8;
const PARTS_MAX = 128;
const LIST_MAX = 256;

/** A filter of a request; what is wrong with it is said in one sentence. */
export const searchFilter = z.custom<SearchFilter>().superRefine((value, context) => {
  const problem = problemOf(value, 1, { parts: 0 });
  if (problem !== null) context.addIssue({ code: "custom", message: problem });
});

/** OpenAI's `ranking_options`. */
export const rankingOptions = z.strictObject({
  ranker: z.enum(["none", "auto", "default-2024-11-15"]).nullish(),
  score_threshold: z.number().min(0).max(1).nullish(),
});

/** What is wrong with a filter; null: nothing. */
function problemOf(value: unknown, level: number, seen: { parts: number }): string | null {
  if (!isRecord(value)) return "must be a filter {type, key, value} or {type, filters}";
  seen.parts++;
  if (level > LEVELS_MAX) return `must have at most ${LEVELS_MAX} levels of filters`;
  if (seen.parts > PARTS_MAX) return `must have at most ${PARTS_MAX} filters`;
  const { type } = value;
  if (type !== "and" && type !== "or") return comparisonProblem(value);
  const { filters } = value;
  if (Object.keys(value).length > 2) return "must have type and filters alone";
  if (!Array.isArray(filters) || filters.length === 0) return `must have filters in its ${type}`;
  for (const inner of filters) {
    const problem = problemOf(inner, level + 1, seen);
    if (problem !== null) return problem;
  }
  return null;
}

function comparisonProblem(filter: Readonly<Record<string, unknown>>): string | null {
  const { type, key, value } = filter;
  if (typeof type !== "string" || !COMPARISONS.includes(type)) {
    return `must have type and, or, ${COMPARISONS.join(", ")}`;
  }
  if (Object.keys(filter).length > 3) return "must have type, key and value alone";
  if (typeof key !== "string" || !ATTRIBUTE_NAME.test(key)) {
    return "must have keys of 1 to 64 letters, digits, _ or -";
  }
  if (LISTS.includes(type)) {
    const isList = Array.isArray(value) && value.length <= LIST_MAX;
    if (isList && value.every((item) => isText(item) || isNumber(item))) return null;
    return `must have a list of at most ${LIST_MAX} texts and numbers for ${type}`;
  }
  if (isText(value) || isNumber(value)) return null;
  if (typeof value === "boolean" && !ORDERS.includes(type)) return null;
  return `must have a text of at most ${ATTRIBUTE_LENGTH_MAX} characters or a number for ${type}`;
}

function isText(value: unknown): boolean {
  return typeof value === "string" && value.length <= ATTRIBUTE_LENGTH_MAX;
}

function isNumber(value: unknown): boolean {
  return typeof value === "number" && Number.isFinite(value);
}

function isRecord(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
