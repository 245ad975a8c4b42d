import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import type { MeanPoolInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams(["pointer", "pointer", "pointer", "i32", "i32"]);

/** Calls the kernel with `MeanPoolParams` (native/cuda/mean-pool.cu). */
export function meanPool({ kernels, launcher }: CudaContext, input: MeanPoolInput): void {
  const { sequences } = input;
  const columns = elementCount(input.x.shape.slice(1));
  params.fill(
    tensorOf(input.out, "f32", sequences, columns).address,
    tensorOf(input.x, "f32", 0, columns).address,
    vectorOf(input.starts, "i32", sequences + 1),
    columns,
    input.normalize ? 1 : 0,
  );
  launcher.launch(kernels.mean_pool, { grid: [sequences], threads: ROW_THREADS }, params);
}
