import { assert } from "#base";
import { elementCount } from "#tensor";
import type { LogprobsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(10);

/** Calls the kernel with `LogprobsParams` (native/cpu/logprobs.cpp). */
export function logprobs({ kernels, pool }: CpuContext, input: LogprobsInput): void {
  const { count, topCount } = input;
  const vocabulary = elementCount(input.logits.shape.slice(1));
  kernels.logprobs(
    params.fill(
      pool,
      tensorOf(input.logits, "f32", count, vocabulary).address,
      vectorOf(input.tokens, "i32", count),
      vectorOf(input.chosen, "f32", count),
      vectorOf(input.ranks, "i32", count),
      ...topFields(input, vocabulary),
      topCount,
      count,
      vocabulary,
    ),
  );
}

/** Output fields of the likeliest tokens; null when none are requested. */
function topFields(input: LogprobsInput, vocabulary: number): readonly (bigint | null)[] {
  const { count, topCount, topTokens, topLogprobs } = input;
  if (topCount === 0) return [null, null];
  assert(
    topTokens !== undefined && topLogprobs !== undefined && topCount <= vocabulary,
    `Cannot write the ${topCount} likeliest tokens: topTokens and topLogprobs wanted`,
  );
  return [
    vectorOf(topTokens, "i32", count * topCount),
    vectorOf(topLogprobs, "f32", count * topCount),
  ];
}
