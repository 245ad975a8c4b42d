import { at } from "#tensor";
import type { RotateHeadsInput } from "../ops.ts";
import { checkRotation } from "../rotation.ts";
import { f32Rows, i32 } from "./host-tensor.ts";

/** Rotates the first heads of each row by the angles of its position. */
export function rotateHeads(input: RotateHeadsInput): void {
  const { count, heads, headDim } = input;
  checkRotation(input);
  const x = f32Rows(input.x);
  const rope = f32Rows(input.rope);
  const positions = i32(input.positions);
  for (let t = 0; t < count; t++) {
    const row = x.row(t);
    const angles = rope.row(at(positions, t));
    for (let head = 0; head < heads; head++) {
      rotateInPlace(row.subarray(head * headDim, (head + 1) * headDim), angles);
    }
  }
}

/**
 * Rotates the pair (i, i + half) by its angle. `angles`: cosines, then sines. Source: Su et al.
 * 2021, "RoFormer"; the pairing of halves is GPT-NeoX's.
 */
export function rotateInPlace(head: Float32Array, angles: Float32Array): void {
  const half = angles.length / 2;
  for (let i = 0; i < half; i++) {
    const cos = at(angles, i);
    const sin = at(angles, half + i);
    const a = at(head, i);
    const b = at(head, half + i);
    head[i] = a * cos - b * sin;
    head[half + i] = b * cos + a * sin;
  }
}
