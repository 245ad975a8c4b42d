import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import type { GatherRowsInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams(["pointer", "pointer", "pointer", "i32"]);

/** Calls the kernel with `GatherRowsParams` (native/cuda/gather-rows.cu). */
export function gatherRows({ kernels, launcher }: CudaContext, input: GatherRowsInput): void {
  const { count } = input;
  const columns = elementCount(input.x.shape.slice(1));
  params.fill(
    tensorOf(input.out, "f32", count, columns).address,
    tensorOf(input.x, "f32", 0, columns).address,
    vectorOf(input.indices, "i32", count),
    columns,
  );
  launcher.launch(kernels.gather_rows, { grid: [count], threads: ROW_THREADS }, params);
}
