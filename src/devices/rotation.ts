import { assert } from "#base";
import { elementCount } from "#tensor";
import type { RotateHeadsInput } from "./ops.ts";

/** Checks the shapes of `rotateHeads`, the same on every device; returns the rotated dimensions. */
export function checkRotation({ x, heads, headDim, rope }: RotateHeadsInput): number {
  const columns = elementCount(x.shape.slice(1));
  const rotary = elementCount(rope.shape.slice(1));
  assert(
    heads >= 1 && heads * headDim <= columns && rotary % 2 === 0 && rotary <= headDim,
    `Cannot rotate ${heads} heads of ${headDim} dimensions by ${rotary} of them in rows of ` +
      `${columns}`,
  );
  return rotary;
}
