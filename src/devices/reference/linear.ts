import { assert } from "#base";
import { at } from "#tensor";
import type { LinearInput } from "../ops.ts";
import { f32, f32Rows } from "./host-tensor.ts";
import { type PackedRows, packedRows } from "./packed-rows.ts";

/** out[t, n] = sum over k of x[t, k] * weight[n, k] + bias[n], or added to the current out. */
export function linear(input: LinearInput): void {
  const x = packedRows(input.x);
  const weight = packedRows(input.weight);
  const out = f32Rows(input.out, weight.rows);
  const bias = input.bias === undefined ? null : f32(input.bias);
  for (let t = 0; t < input.count; t++) {
    const outRow = out.row(t);
    const product = multiplyRow(weight, x, t);
    if (input.accumulate !== true) outRow.fill(0);
    for (let n = 0; n < weight.rows; n++) {
      outRow[n] = at(outRow, n) + at(product, n) + (bias?.[n] ?? 0);
    }
  }
}

/** [N]: row `row` of `x` times every row of `weight`, in f64. */
export function multiplyRow(weight: PackedRows, x: PackedRows, row: number): Float64Array {
  assert(
    weight.format === x.format && weight.columns === x.columns,
    `Cannot multiply ${x.format} rows of ${x.columns} by a ${weight.format} matrix ` +
      `of ${weight.columns} columns`,
  );
  const out = new Float64Array(weight.rows);
  for (let n = 0; n < weight.rows; n++) out[n] = weight.dot(n, x, row);
  return out;
}
