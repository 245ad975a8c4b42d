import { racedTokensOf } from "../../drafter-counts.ts";
import type { RaceCandidatesInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(14);

/** Calls the kernel with `RaceCandidatesParams` (native/cpu/race-candidates.cpp). */
export function raceCandidates({ kernels, pool }: CpuContext, input: RaceCandidatesInput): void {
  const { count, before, tokenMap, ahead } = input;
  const perRow = racedTokensOf(input);
  const rows = count * before;
  kernels.race_candidates(
    params.fill(
      pool,
      tensorOf(input.topTokens, "i32", rows, perRow).address,
      tensorOf(input.topLogprobs, "f32", rows, perRow).address,
      tokenMap === undefined ? null : vectorOf(tokenMap, "i32", 0),
      vectorOf(input.temperature, "f32", count),
      vectorOf(input.topK, "i32", count),
      vectorOf(input.topP, "f32", count),
      vectorOf(input.minP, "f32", count),
      vectorOf(input.seeds, "u32", 2 * count),
      vectorOf(input.positions, "i32", count),
      count,
      before,
      perRow,
      ahead,
    ),
  );
}
