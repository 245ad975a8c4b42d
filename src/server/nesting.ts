import { HttpError } from "./http-errors.ts";

/** Deeper than any real request, and far below where recursion would exhaust the stack. */
const nestingMax = 64;

/** Refuses bodies that are nested so deeply that walking them could fail. */
export function checkNesting(body: unknown): void {
  let level: unknown[] = [body];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > nestingMax) {
      throw new HttpError(
        400,
        "nested_too_deeply",
        `Cannot read request: at most ${nestingMax} levels of JSON are accepted`,
      );
    }
    level = level.flatMap(children);
  }
}

/** Objects and arrays inside of a value. Lists of numbers, which can be huge, have none. */
function children(value: unknown): unknown[] {
  if (typeof value !== "object" || value === null) return [];
  const inner: unknown[] = Array.isArray(value) ? value : Object.values(value);
  return inner.filter((item) => typeof item === "object" && item !== null);
}
