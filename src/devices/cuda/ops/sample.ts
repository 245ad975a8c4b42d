import { KernelParams } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import type { SampleInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";
import { checkedVocabulary, findBest, VOCABULARY_THREADS } from "./vocabulary.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["pointer", "pointer", "pointer", "pointer", "pointer", "i32", "i32"] as const),
]);

/** Finds the likeliest tokens; calls the kernel with `SampleParams` (native/cuda/sample.cu). */
export function sample(context: CudaContext, input: SampleInput): void {
  const { kernels, launcher } = context;
  const { count } = input;
  const tokens = checkedVocabulary(elementCount(input.logits.shape.slice(1)));
  const logits = tensorOf(input.logits, "f32", count, tokens).address;
  const { bests, states, slices, parts } = findBest(context, { logits, count, tokens });
  params.fill(
    vectorOf(input.out, "i32", count),
    logits,
    vectorOf(input.temperature, "f32", count),
    vectorOf(input.topK, "i32", count),
    vectorOf(input.topP, "f32", count),
    vectorOf(input.minP, "f32", count),
    vectorOf(input.seeds, "u32", 2 * count),
    vectorOf(input.positions, "i32", count),
    bests,
    states,
    tokens,
    slices,
  );
  launcher.launch(kernels.sample, { grid: [count, parts], threads: VOCABULARY_THREADS }, params);
}
