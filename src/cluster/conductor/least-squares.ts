/**
 * Linear least squares of relative errors over a few measured points, no coefficient below 0: those
 * that come out negative are held at 0, and the others fitted again. Null: the points are too few,
 * or too much alike, to tell the terms apart.
 */
export function leastSquares(
  rows: readonly (readonly number[])[],
  times: readonly number[],
): readonly number[] | null {
  const size = rows[0]?.length ?? 0;
  let columns = Array.from({ length: size }, (_, at) => at);
  while (columns.length > 0) {
    const solution = solve(rows, times, columns);
    if (solution === null) return null;
    const kept = columns.filter((_, at) => (solution[at] ?? 0) >= 0);
    if (kept.length === columns.length) {
      return Array.from({ length: size }, (_, at) => solution[columns.indexOf(at)] ?? 0);
    }
    columns = kept;
  }
  return null;
}

/** Pivots below this share of their column are rounding. */
const PIVOT_MIN = 1e-12;

/** Normal equations of scaled columns, by Gauss and Jordan's elimination. */
function solve(
  rows: readonly (readonly number[])[],
  times: readonly number[],
  columns: readonly number[],
): readonly number[] | null {
  const relative = rows.map((row, at) =>
    columns.map((column) => (row[column] ?? 0) / (times[at] ?? 1)),
  );
  const scales = columns.map((_, at) => Math.hypot(...relative.map((row) => row[at] ?? 0)));
  if (scales.some((scale) => !(scale > 0))) return null;
  const scaled = relative.map((row) => row.map((value, at) => value / (scales[at] ?? 1)));
  const sum = (product: (row: readonly number[]) => number) =>
    scaled.reduce((total, row) => total + product(row), 0);
  const matrix = columns.map((_, a) => [
    ...columns.map((_, b) => sum((row) => (row[a] ?? 0) * (row[b] ?? 0))),
    sum((row) => row[a] ?? 0),
  ]);
  for (let at = 0; at < columns.length; at++) {
    const pivot = matrix[at];
    const head = pivot?.[at] ?? 0;
    if (pivot === undefined || Math.abs(head) < PIVOT_MIN) return null;
    const unit = pivot.map((value) => value / head);
    for (const [place, row] of matrix.entries()) {
      const factor = row[at] ?? 0;
      matrix[place] =
        place === at ? unit : row.map((value, column) => value - factor * (unit[column] ?? 0));
    }
  }
  return matrix.map((row, at) => (row[columns.length] ?? 0) / (scales[at] ?? 1));
}
