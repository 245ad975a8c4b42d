import { beamTokensOf } from "../../drafter-counts.ts";
import type { SelectBeamsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(12);

/** Calls the kernel with `SelectBeamsParams` (native/cpu/select-beams.cpp). */
export function selectBeams({ kernels, pool }: CpuContext, input: SelectBeamsInput): void {
  const { count, before, width, scores, tokenMap } = input;
  const perBeam = beamTokensOf(input);
  const rows = count * before;
  kernels.select_beams(
    params.fill(
      pool,
      tensorOf(input.topTokens, "i32", rows, perBeam).address,
      tensorOf(input.topLogprobs, "f32", rows, perBeam).address,
      scores === undefined ? null : vectorOf(scores, "f32", rows),
      tokenMap === undefined ? null : vectorOf(tokenMap, "i32", 0),
      vectorOf(input.outScores, "f32", count * width),
      vectorOf(input.tokens, "i32", count * width),
      vectorOf(input.parents, "i32", count * width),
      count,
      before,
      perBeam,
      width,
    ),
  );
}
