import { HttpError } from "./http-errors.ts";

/** Deeper than any real request, and far below where recursion would exhaust the stack. */
export const BODY_LEVELS_MAX = 64;

/** Lists of numbers up to here are prompts as token ids, of which there may be millions. */
const TOKEN_ID_LEVEL_MAX = 2;

/**
 * Refuses bodies that are nested so deeply that walking them could fail, or have so many values
 * that a schema which reports each wrong one would fill the memory.
 */
export function checkBodyShape(body: unknown, valuesMax: number): void {
  let level: unknown[] = [body];
  let values = 0;
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > BODY_LEVELS_MAX) {
      throw refusal("nested_too_deeply", `at most ${BODY_LEVELS_MAX} levels of JSON are accepted`);
    }
    const next: unknown[] = [];
    for (const container of level) {
      values += gatherChildren(container, depth, next);
      if (values > valuesMax) {
        throw refusal(
          "too_many_values",
          `at most ${valuesMax} values are accepted, lists of token ids apart`,
        );
      }
    }
    level = next;
  }
}

/** Appends objects and arrays inside of a value to `found`; how many values it holds. */
function gatherChildren(value: unknown, depth: number, found: unknown[]): number {
  if (typeof value !== "object" || value === null) return 0;
  const isList = Array.isArray(value);
  const inner: unknown[] = isList ? value : Object.values(value);
  let numbers = 0;
  for (const item of inner) {
    if (typeof item === "number") numbers += 1;
    else if (typeof item === "object" && item !== null) found.push(item);
  }
  return isList && depth <= TOKEN_ID_LEVEL_MAX ? inner.length - numbers : inner.length;
}

function refusal(code: string, wanted: string): HttpError {
  return new HttpError(400, code, `Cannot read request: ${wanted}`);
}
