import { elementCount } from "#tensor";
import type { SampleInput } from "../../ops.ts";
import type { CudaContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { KernelParams } from "../kernel-params.ts";
import { checkedVocabulary, VOCABULARY_THREADS } from "../vocabulary.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["pointer", "pointer", "pointer", "i32"] as const),
]);

/** Fields of `SampleParams` in native/cuda/sample.cu. */
export function sample({ kernels, launcher }: CudaContext, input: SampleInput): void {
  const { count } = input;
  const tokens = checkedVocabulary(elementCount(input.logits.shape.slice(1)));
  params.fill(
    vectorOf(input.out, "i32", count),
    tensorOf(input.logits, "f32", count, tokens).address,
    vectorOf(input.temperature, "f32", count),
    vectorOf(input.topK, "i32", count),
    vectorOf(input.topP, "f32", count),
    vectorOf(input.minP, "f32", count),
    vectorOf(input.seeds, "u32", 2 * count),
    vectorOf(input.positions, "i32", count),
    tokens,
  );
  launcher.launch(kernels.sample, { grid: [count], threads: VOCABULARY_THREADS }, params);
}
