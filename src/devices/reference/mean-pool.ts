import { addScaled, at, dot, scaleRow } from "#tensor";
import type { MeanPoolInput } from "../ops.ts";
import { f32Rows, i32 } from "./host-tensor.ts";

/** Smaller norms are raised to this, so that a row of zeros stays zeros. */
const lengthMin = 1e-12;

/** out[s] = mean of the rows of sequence s, optionally normalised to length 1. Zero for no rows. */
export function meanPool(input: MeanPoolInput): void {
  const out = f32Rows(input.out);
  const x = f32Rows(input.x);
  const starts = i32(input.starts);
  for (let sequence = 0; sequence < input.sequences; sequence++) {
    const start = at(starts, sequence);
    const end = at(starts, sequence + 1);
    const sum = new Float64Array(out.row(sequence).length);
    for (let row = start; row < end; row++) addScaled(sum, x.row(row), 1);
    if (end > start) scaleRow(sum, 1 / (end - start));
    const mean = Float32Array.from(sum);
    if (input.normalize) scaleRow(mean, 1 / Math.max(Math.sqrt(dot(mean, mean)), lengthMin));
    out.store(sequence, mean);
  }
}
