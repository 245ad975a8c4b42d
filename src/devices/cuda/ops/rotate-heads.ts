import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import type { RotateHeadsInput } from "../../ops.ts";
import { checkRotation } from "../../rotation.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams(["pointer", "pointer", "pointer", "i32", "i32", "i32", "i32"]);

/** Calls the kernel with `RotateHeadsParams` (native/cuda/rotate-heads.cu). */
export function rotateHeads({ kernels, launcher }: CudaContext, input: RotateHeadsInput): void {
  const { count, heads, headDim } = input;
  const columns = elementCount(input.x.shape.slice(1));
  const rotary = checkRotation(input);
  params.fill(
    tensorOf(input.x, "f32", count, columns).address,
    vectorOf(input.positions, "i32", count),
    tensorOf(input.rope, "f32", 0, rotary).address,
    columns,
    heads,
    headDim,
    rotary,
  );
  launcher.launch(kernels.rotate_heads, { grid: [count], threads: ROW_THREADS }, params);
}
