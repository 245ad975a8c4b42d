import type { ConvertInput } from "../../ops.ts";
import { type CudaContext, ROW_THREADS } from "../context.ts";
import { activationOf, tensorOf } from "../handles.ts";
import { KernelParams, PACKED_ROWS } from "../kernel-params.ts";

const params = new KernelParams([...PACKED_ROWS, "pointer"]);

/** Fields of `ConvertParams` in native/cuda/convert.cu. */
export function convert({ kernels, launcher }: CudaContext, input: ConvertInput): void {
  const { count } = input;
  const { columns } = input.out;
  const out = activationOf(input.out, count, columns);
  const x = tensorOf(input.x, "f32", count, columns);
  params.fill(...out.params, x.address);
  launcher.launch(kernels.convert, { grid: [count], threads: ROW_THREADS }, params);
}
