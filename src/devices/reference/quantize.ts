/**
 * The i8 format, exactly. A row is cut into groups of `quantGroupColumns` consecutive columns (the
 * last one may be shorter). Every group has one f32 scale; symmetric, no zero point:
 *
 *   scale = max |w| / 127          q = round(w / scale), halves to even, in [-127, 127]
 *
 * with f32 divisions. A group of zeros has scale 0. Activations are quantised in the same way, row
 * by row, so that the dot product of two groups is an integer sum times two scales.
 */
import { absMaxOf, at } from "#tensor";

/** Columns that share a scale. */
export const quantGroupColumns = 128;

const quantMax = 127;

/** Rows of 8-bit integers with their scales. */
export interface QuantizedRows {
  /** [rows, columns]. */
  readonly values: Int8Array;
  /** [rows, groupsOf(columns)]. */
  readonly scales: Float32Array;
}

/** Groups in a row of `columns`. */
export function groupsOf(columns: number): number {
  return Math.ceil(columns / quantGroupColumns);
}

/** Nearest integer, halves to the even one. */
export function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  const rest = value - floor;
  if (rest !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** Quantises one row into `values` [columns] and `scales` [groupsOf(columns)]. */
export function quantizeRow(row: Float32Array, values: Int8Array, scales: Float32Array): void {
  for (let group = 0; group < scales.length; group++) {
    const start = group * quantGroupColumns;
    const columns = row.subarray(start, start + quantGroupColumns);
    const scale = Math.fround(absMaxOf(columns) / quantMax);
    scales[group] = scale;
    for (let i = 0; i < columns.length; i++) {
      values[start + i] = scale === 0 ? 0 : quantizeValue(at(columns, i), scale);
    }
  }
}

function quantizeValue(value: number, scale: number): number {
  const q = roundHalfEven(Math.fround(value / scale));
  return Math.min(Math.max(q, -quantMax), quantMax);
}

/** Quantises `data` [rows, columns]. */
export function quantizeRows(data: Float32Array, rows: number, columns: number): QuantizedRows {
  const groups = groupsOf(columns);
  const values = new Int8Array(rows * columns);
  const scales = new Float32Array(rows * groups);
  for (let row = 0; row < rows; row++) {
    quantizeRow(
      data.subarray(row * columns, (row + 1) * columns),
      values.subarray(row * columns, (row + 1) * columns),
      scales.subarray(row * groups, (row + 1) * groups),
    );
  }
  return { values, scales };
}
