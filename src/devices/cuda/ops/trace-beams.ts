import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { vectorOf } from "#devices/cuda/memory";
import { tracedBeamsOf } from "../../drafter-counts.ts";
import type { TraceBeamsInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams(["pointer", "pointer", "i32", "i32", "i32"]);

/** Calls the kernel with `TraceBeamsParams` (native/cuda/trace-beams.cu). */
export function traceBeams({ kernels, launcher }: CudaContext, input: TraceBeamsInput): void {
  const { length, stride } = input;
  const beams = tracedBeamsOf(input);
  params.fill(
    vectorOf(input.levels, "i32", 2 * length * stride),
    vectorOf(input.out, "i32", beams * length),
    beams,
    length,
    stride,
  );
  const grid = [Math.ceil(beams / ROW_THREADS)] as const;
  launcher.launch(kernels.trace_beams, { grid, threads: ROW_THREADS }, params);
}
