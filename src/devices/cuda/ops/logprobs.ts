import { assert } from "#base";
import { KernelParams } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import type { LogprobsInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";
import { checkedVocabulary, findBest, VOCABULARY_THREADS } from "./vocabulary.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["pointer", "pointer", "i32", "i32", "i32"] as const),
]);

/** Finds the likeliest tokens; calls the kernel with `LogprobsParams` (native/cuda/logprobs.cu). */
export function logprobs(context: CudaContext, input: LogprobsInput): void {
  const { kernels, launcher } = context;
  const { count, topCount } = input;
  const vocabulary = checkedVocabulary(elementCount(input.logits.shape.slice(1)));
  const logits = tensorOf(input.logits, "f32", count, vocabulary).address;
  const best = findBest(context, { logits, count, tokens: vocabulary });
  params.fill(
    logits,
    vectorOf(input.tokens, "i32", count),
    vectorOf(input.chosen, "f32", count),
    vectorOf(input.ranks, "i32", count),
    ...topFields(input, vocabulary),
    best.bests,
    best.states,
    topCount,
    vocabulary,
    best.slices,
  );
  const shape = { grid: [count, best.parts], threads: VOCABULARY_THREADS } as const;
  launcher.launch(kernels.logprobs, shape, params);
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
