import type { TakeTokensInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(4);

/** Calls the kernel with `TakeTokensParams` (native/cpu/take-tokens.cpp). */
export function takeTokens({ kernels }: CpuContext, input: TakeTokensInput): void {
  const { count } = input;
  kernels.take_tokens(
    params.fill(
      vectorOf(input.ids, "i32", count),
      vectorOf(input.sampled, "i32", 0),
      vectorOf(input.sources, "i32", count),
      count,
    ),
  );
}
