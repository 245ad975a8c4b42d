import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import type { SpreadRowsInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams(["pointer", "pointer", "pointer", "i32"]);

/** Calls the kernel with `SpreadRowsParams` (native/cuda/spread-rows.cu). */
export function spreadRows({ kernels, launcher }: CudaContext, input: SpreadRowsInput): void {
  const { count } = input;
  const columns = input.out.shape[1] ?? 1;
  params.fill(
    tensorOf(input.out, "i32", count, columns).address,
    vectorOf(input.starts, "i32", count + 1),
    vectorOf(input.values, "i32", 0),
    columns,
  );
  launcher.launch(kernels.spread_rows, { grid: [count], threads: ROW_THREADS }, params);
}
