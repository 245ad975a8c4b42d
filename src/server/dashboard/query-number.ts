import { shortText } from "#base";
import { HttpError } from "../http-errors.ts";

/**
 * A whole number of a query; null: it was not given.
 *
 * @throws HttpError 400 for anything else
 */
export function queryNumber(query: unknown, name: string, most: number): number | null {
  const given = queryText(query, name);
  if (given === undefined) return null;
  const value = typeof given === "string" && /^\d{1,15}$/.test(given) ? Number(given) : Number.NaN;
  if (value <= most) return value;
  throw new HttpError(
    400,
    "invalid_argument",
    `Cannot look into the cache: ${name} must be a whole number up to ${most}, current value is ` +
      `${shortText(String(given))}`,
  );
}

/** A text of a query; undefined: it was not given; a list where it was given more than once. */
export function queryText(query: unknown, name: string): unknown {
  if (typeof query !== "object" || query === null || !Object.hasOwn(query, name)) return undefined;
  return (query as Readonly<Record<string, unknown>>)[name]; // An own property, read as unknown.
}
