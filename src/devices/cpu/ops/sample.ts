import { elementCount } from "#tensor";
import type { SampleInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(11);

/** Calls the kernel with `SampleParams` (native/cpu/sample.cpp). */
export function sample({ kernels, pool }: CpuContext, input: SampleInput): void {
  const { count } = input;
  const tokens = elementCount(input.logits.shape.slice(1));
  kernels.sample(
    params.fill(
      pool,
      vectorOf(input.out, "i32", count),
      tensorOf(input.logits, "f32", count, tokens).address,
      vectorOf(input.temperature, "f32", count),
      vectorOf(input.topK, "i32", count),
      vectorOf(input.topP, "f32", count),
      vectorOf(input.minP, "f32", count),
      vectorOf(input.seeds, "u32", 2 * count),
      vectorOf(input.positions, "i32", count),
      count,
      tokens,
    ),
  );
}
