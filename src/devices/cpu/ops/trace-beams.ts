import { tracedBeamsOf } from "../../drafter-counts.ts";
import type { TraceBeamsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(5);

/** Calls the kernel with `TraceBeamsParams` (native/cpu/trace-beams.cpp). */
export function traceBeams({ kernels }: CpuContext, input: TraceBeamsInput): void {
  const { length, stride } = input;
  const beams = tracedBeamsOf(input);
  kernels.trace_beams(
    params.fill(
      vectorOf(input.levels, "i32", 2 * length * stride),
      vectorOf(input.out, "i32", beams * length),
      beams,
      length,
      stride,
    ),
  );
}
