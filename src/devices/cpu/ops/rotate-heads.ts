import { elementCount } from "#tensor";
import type { RotateHeadsInput } from "../../ops.ts";
import { checkRotation } from "../../rotation.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(9);

/** Calls the kernel with `RotateHeadsParams` (native/cpu/rotate-heads.cpp). */
export function rotateHeads({ kernels, pool }: CpuContext, input: RotateHeadsInput): void {
  const { count, heads, headDim } = input;
  const columns = elementCount(input.x.shape.slice(1));
  const rotary = checkRotation(input);
  kernels.rotate_heads(
    params.fill(
      pool,
      tensorOf(input.x, "f32", count, columns).address,
      vectorOf(input.positions, "i32", count),
      tensorOf(input.rope, "f32", 0, rotary).address,
      count,
      columns,
      heads,
      headDim,
      rotary,
    ),
  );
}
