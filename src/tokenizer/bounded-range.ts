/** Maximum length of one range: all items are created before the first is used. */
const RANGE_MAX = 100_000;

/** The name of `boundedRange` in templates: the library's own `range` cannot be replaced. */
export const BOUNDED_RANGE = "perigee_bounded_range";

/** Jinja's `range` with a limit. Throws a plain `Error`; the render error contains its message. */
export function boundedRange(...given: unknown[]): number[] {
  // The last argument holds the keyword arguments; `range` has none.
  const [first = 0, second, step = 1] = given.filter((value) => typeof value === "number");
  const [start, stop] = second === undefined ? [0, first] : [first, second];
  const length = Math.max(0, Math.ceil((stop - start) / step));
  if (!Number.isFinite(length) || length > RANGE_MAX) {
    throw new Error(`range() gives at most ${RANGE_MAX} items, asked for ${length}`);
  }
  return Array.from({ length }, (_, i) => start + i * step);
}
