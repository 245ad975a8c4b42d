import { KernelParams } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { beamTokensOf } from "../../drafter-counts.ts";
import type { SelectBeamsInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["i32", "i32", "i32"] as const),
]);

const warpThreads = 32;

/** Calls the kernel with `SelectBeamsParams` (native/cuda/select-beams.cu). */
export function selectBeams({ kernels, launcher }: CudaContext, input: SelectBeamsInput): void {
  const { count, before, width, scores, tokenMap } = input;
  const perBeam = beamTokensOf(input);
  const rows = count * before;
  params.fill(
    tensorOf(input.topTokens, "i32", rows, perBeam).address,
    tensorOf(input.topLogprobs, "f32", rows, perBeam).address,
    scores === undefined ? null : vectorOf(scores, "f32", rows),
    tokenMap === undefined ? null : vectorOf(tokenMap, "i32", 0),
    vectorOf(input.outScores, "f32", count * width),
    vectorOf(input.tokens, "i32", count * width),
    vectorOf(input.parents, "i32", count * width),
    before,
    perBeam,
    width,
  );
  const threads = Math.ceil((before * perBeam) / warpThreads) * warpThreads;
  launcher.launch(kernels.select_beams, { grid: [count], threads }, params);
}
