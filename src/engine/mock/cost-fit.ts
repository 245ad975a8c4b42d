/**
 * Fits a cost model to measured times: least squares of the relative errors, no factor below zero.
 * There are five factors, so every set of those that are not zero is tried: exact, and short.
 */
import { assert } from "#base";
import { type StepCost, type StepSize, stepMs } from "./cost-model.ts";

/** Measured work. */
export interface CostPoint extends StepSize {
  readonly ms: number;
}

/** The factors, and how far they are from the points. */
export interface CostFit {
  readonly cost: StepCost;
  /** [points]: modelled time / measured time. */
  readonly ratios: readonly number[];
}

const TERMS = ["steps", "promptTokens", "promptPairs", "decoding", "contextTokens"] as const;

/** Pivots below this share of their column are rounding. */
const PIVOT_MIN = 1e-12;

/** At least one point, each of a positive time. */
export function fitCost(points: readonly CostPoint[]): CostFit {
  assert(points.length > 0, "Cannot fit a cost model to nothing");
  const rows = points.map((point) => TERMS.map((term) => point[term] / point.ms));
  let best: readonly number[] = TERMS.map(() => 0);
  let bestError = errorOf(rows, best);
  for (let set = 1; set < 1 << TERMS.length; set++) {
    const columns = TERMS.flatMap((_, place) => ((set >> place) & 1 ? [place] : []));
    const found = solve(rows, columns);
    if (found === null || found.some((factor) => factor < 0)) continue;
    const error = errorOf(rows, found);
    if (error >= bestError) continue;
    best = found;
    bestError = error;
  }
  const cost = costOf(best);
  return { cost, ratios: points.map((point) => stepMs(cost, point) / point.ms) };
}

function costOf(factors: readonly number[]): StepCost {
  const [stepMs = 0, promptTokenMs = 0, promptPairMs = 0, decodingMs = 0, contextTokenMs = 0] =
    factors;
  return { stepMs, promptTokenMs, promptPairMs, decodingMs, contextTokenMs };
}

/** Sum of squares; each row's modelled share of its time should be 1. */
function errorOf(rows: readonly (readonly number[])[], factors: readonly number[]): number {
  return rows.reduce((sum, row) => sum + (dot(row, factors) - 1) ** 2, 0);
}

/** Least squares over some columns, by normal equations; null where they depend on each other. */
function solve(
  rows: readonly (readonly number[])[],
  columns: readonly number[],
): readonly number[] | null {
  // Columns differ by ten orders of magnitude: each is scaled to length 1.
  const scales = columns.map((column) => Math.hypot(...rows.map((row) => row[column] ?? 0)));
  if (scales.some((scale) => scale === 0)) return null;
  const scaled = rows.map((row) =>
    columns.map((column, place) => (row[column] ?? 0) / (scales[place] ?? 1)),
  );
  const matrix = columns.map((_, a) => [
    ...columns.map((_, b) => scaled.reduce((sum, row) => sum + (row[a] ?? 0) * (row[b] ?? 0), 0)),
    scaled.reduce((sum, row) => sum + (row[a] ?? 0), 0),
  ]);
  const found = eliminate(matrix);
  if (found === null) return null;
  const factors = TERMS.map(() => 0);
  columns.forEach((column, place) => {
    factors[column] = (found[place] ?? 0) / (scales[place] ?? 1);
  });
  return factors;
}

/** Gauss and Jordan's elimination with pivots, of [n, n + 1]; null: singular. */
function eliminate(matrix: number[][]): number[] | null {
  const size = matrix.length;
  for (let at = 0; at < size; at++) {
    const candidates = matrix.slice(at).map((row) => Math.abs(row[at] ?? 0));
    const pivotAt = at + candidates.indexOf(Math.max(...candidates));
    const pivot = matrix[pivotAt];
    const here = matrix[at];
    const head = pivot?.[at] ?? 0;
    if (pivot === undefined || here === undefined || Math.abs(head) < PIVOT_MIN) return null;
    matrix[pivotAt] = here;
    matrix[at] = pivot.map((value) => value / head);
    matrix.forEach((row, place) => {
      const factor = row[at] ?? 0;
      if (place === at || factor === 0) return;
      matrix[place] = row.map((value, column) => value - factor * (matrix[at]?.[column] ?? 0));
    });
  }
  return matrix.map((row) => row[size] ?? 0);
}

function dot(a: readonly number[], b: readonly number[]): number {
  return a.reduce((sum, value, place) => sum + value * (b[place] ?? 0), 0);
}
