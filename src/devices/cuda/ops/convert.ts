import { KernelParams, PACKED_ROWS, ROW_PART, ROW_THREADS } from "#devices/cuda/kernels";
import { activationOf, type CudaActivation, tensorOf } from "#devices/cuda/memory";
import type { ConvertInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams([...PACKED_ROWS, "pointer"]);

/** out = x, rounded to the format of `out`. */
export function convert(context: CudaContext, input: ConvertInput): void {
  const { count } = input;
  const { columns } = input.out;
  const out = activationOf(input.out, count, columns);
  convertRows(context, out, tensorOf(input.x, "f32", count, columns).address, count);
}

/**
 * Calls the kernel with `ConvertParams` (native/cuda/convert.cu). `x`: [count, columns of `out`]
 * f32.
 */
export function convertRows(
  { kernels, launcher }: CudaContext,
  out: CudaActivation,
  x: bigint,
  count: number,
): void {
  params.fill(...out.params, x);
  const grid = [count, Math.ceil(out.columns / ROW_PART)] as const;
  launcher.launch(kernels.convert, { grid, threads: ROW_THREADS }, params);
}
