import { addScaled, at } from "#tensor";
import type { NormInput } from "../ops.ts";
import { f32, f32Rows, rowSink } from "./host-tensor.ts";

/**
 * rms     y = x / sqrt(mean(x^2) + epsilon) * (weight + offset)
 * layer   y = (x - mean(x)) / sqrt(variance(x) + epsilon) * (weight + offset) + bias
 *
 * Sources: Zhang and Sennrich 2019, "Root mean square layer normalization"; Ba et al. 2016,
 * "Layer normalization".
 */
export function norm(input: NormInput): void {
  const x = f32Rows(input.x);
  const delta = input.delta === undefined ? null : f32Rows(input.delta);
  const out = rowSink(input.out);
  const weight = f32(input.weight).map((value) => value + (input.weightOffset ?? 0));
  const bias = input.bias === undefined ? null : f32(input.bias);
  for (let t = 0; t < input.count; t++) {
    const row = x.row(t);
    if (delta !== null) addScaled(row, delta.row(t), 1);
    const center = input.kind === "layer" ? meanOf(row) : 0;
    const spread = standardized(row, center, input.epsilon);
    out.store(
      t,
      row.map((value, i) => (value - center) * spread * at(weight, i) + (bias?.[i] ?? 0)),
    );
  }
}

/** RMS norm of one row in place: `norm` for a head. */
export function rmsNormInPlace(row: Float32Array, weight: Float32Array, epsilon: number): void {
  const spread = standardized(row, 0, epsilon);
  row.forEach((value, i) => {
    row[i] = value * spread * at(weight, i);
  });
}

function meanOf(row: Float32Array): number {
  return row.reduce((sum, value) => sum + value, 0) / row.length;
}

/** 1 / sqrt(mean((x - center)^2) + epsilon). */
function standardized(row: Float32Array, center: number, epsilon: number): number {
  const squares = row.reduce((sum, value) => sum + (value - center) ** 2, 0);
  return 1 / Math.sqrt(squares / row.length + epsilon);
}
