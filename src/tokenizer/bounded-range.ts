/** Most items that a template may count through at once: they are made before the first is used. */
const RANGE_MAX = 100_000;

/** The name under which templates find it: the library lets nobody replace its own `range`. */
export const BOUNDED_RANGE = "perigee_bounded_range";

/** Jinja's `range` with a limit. Throws a plain error: the template's failure names it. */
export function boundedRange(...given: unknown[]): number[] {
  // The last argument holds those given by name: there are none.
  const [first = 0, second, step = 1] = given.filter((value) => typeof value === "number");
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!Number.isFinite(length) || length > RANGE_MAX) {
    throw new Error(`range() gives at most ${RANGE_MAX} items, asked for ${length}`);
  }
  return Array.from({ length }, (_, i) => start + i * step);
}
