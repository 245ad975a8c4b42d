import { KernelParams } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { racedTokensOf } from "../../drafter-counts.ts";
import type { RaceCandidatesInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["pointer", "pointer", "i32", "i32", "i32"] as const),
]);

const warpThreads = 32;

/** Calls the kernel with `RaceCandidatesParams` (native/cuda/race-candidates.cu). */
export function raceCandidates(
  { kernels, launcher }: CudaContext,
  input: RaceCandidatesInput,
): void {
  const { count, before, tokenMap, ahead } = input;
  const perRow = racedTokensOf(input);
  const rows = count * before;
  params.fill(
    tensorOf(input.topTokens, "i32", rows, perRow).address,
    tensorOf(input.topLogprobs, "f32", rows, perRow).address,
    tokenMap === undefined ? null : vectorOf(tokenMap, "i32", 0),
    vectorOf(input.temperature, "f32", count),
    vectorOf(input.topK, "i32", count),
    vectorOf(input.topP, "f32", count),
    vectorOf(input.minP, "f32", count),
    vectorOf(input.seeds, "u32", 2 * count),
    vectorOf(input.positions, "i32", count),
    before,
    perRow,
    ahead,
  );
  const threads = Math.ceil(perRow / warpThreads) * warpThreads;
  launcher.launch(kernels.race_candidates, { grid: [rows], threads }, params);
}
