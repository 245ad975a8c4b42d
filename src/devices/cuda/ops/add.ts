import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { tensorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import type { AddInput } from "../../ops.ts";
import { nonlinearityCode } from "./activate.ts";
import { type CudaContext, elementGrid } from "./context.ts";

const params = new KernelParams(["pointer", "pointer", "i64", "i32"]);

/** Calls the kernel with `AddParams` (native/cuda/add.cu). */
export function add(context: CudaContext, input: AddInput): void {
  const { kernels, launcher } = context;
  const columns = elementCount(input.x.shape.slice(1));
  const x = tensorOf(input.x, "f32", input.count, columns);
  const delta = tensorOf(input.delta, "f32", input.count, columns);
  const count = input.count * columns;
  params.fill(x.address, delta.address, count, nonlinearityCode(input.kind));
  launcher.launch(kernels.add, { grid: elementGrid(context, count), threads: ROW_THREADS }, params);
}
