import { at } from "#tensor";
import { beamTokensOf } from "../drafter-counts.ts";
import type { SelectBeamsInput } from "../ops.ts";
import { f32, i32 } from "./host-tensor.ts";

/** The likeliest continuations of each sequence's beams. */
export function selectBeams(input: SelectBeamsInput): void {
  const { before, width, tokenMap } = input;
  const perBeam = beamTokensOf(input);
  const topTokens = i32(input.topTokens);
  for (let s = 0; s < input.count; s++) {
    const sums = candidateSums(input, s, perBeam);
    bestOf(sums, width).forEach((candidate, place) => {
      const parent = s * before + Math.floor(candidate / perBeam);
      const token = at(topTokens, s * before * perBeam + candidate);
      const beam = s * width + place;
      f32(input.outScores)[beam] = at(sums, candidate);
      i32(input.tokens)[beam] = tokenMap === undefined ? token : at(i32(tokenMap), token);
      i32(input.parents)[beam] = parent;
    });
  }
}

/** [before * K]: sum of log-probabilities of each beam of a sequence with each of its tokens. */
function candidateSums(input: SelectBeamsInput, s: number, perBeam: number): Float32Array {
  const { before, scores } = input;
  const topLogprobs = f32(input.topLogprobs);
  return Float32Array.from({ length: before * perBeam }, (_, candidate) => {
    const beam = s * before + Math.floor(candidate / perBeam);
    const score = scores === undefined ? 0 : at(f32(scores), beam);
    return score + at(topLogprobs, s * before * perBeam + candidate);
  });
}

/** The candidates with the largest sums, best first. */
function bestOf(sums: Float32Array, count: number): number[] {
  const isNan = (candidate: number) => Number(Number.isNaN(at(sums, candidate)));
  // The difference of equal infinities is NaN, which `||` passes over as it does 0.
  return Array.from(sums.keys())
    .sort((a, b) => isNan(a) - isNan(b) || at(sums, b) - at(sums, a) || a - b)
    .slice(0, count);
}
