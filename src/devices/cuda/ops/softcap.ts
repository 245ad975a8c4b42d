import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { tensorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import type { SoftcapInput } from "../../ops.ts";
import { type CudaContext, elementGrid } from "./context.ts";

const params = new KernelParams(["pointer", "i64", "f32"]);

/** Calls the kernel with `SoftcapParams` (native/cuda/softcap.cu). */
export function softcap(context: CudaContext, input: SoftcapInput): void {
  const { kernels, launcher } = context;
  const columns = elementCount(input.x.shape.slice(1));
  const x = tensorOf(input.x, "f32", input.count, columns);
  const count = input.count * columns;
  params.fill(x.address, count, input.cap);
  const shape = { grid: elementGrid(context, count), threads: ROW_THREADS };
  launcher.launch(kernels.softcap, shape, params);
}
