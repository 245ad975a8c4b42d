import { assert } from "#base";
import { at, maxOf } from "#tensor";
import type { LogprobsInput } from "../ops.ts";
import { f32, f32Rows, i32 } from "./host-tensor.ts";

/** Log-softmax at the chosen tokens, their ranks, and the likeliest tokens. */
export function logprobs(input: LogprobsInput): void {
  const logits = f32Rows(input.logits);
  const chosen = f32(input.chosen);
  const ranks = i32(input.ranks);
  for (let r = 0; r < input.count; r++) {
    const row = logits.row(r);
    const normalizer = logSumExp(row);
    const logit = at(row, at(i32(input.tokens), r));
    chosen[r] = logit - normalizer;
    ranks[r] = 1 + row.reduce((larger, other) => larger + (other > logit ? 1 : 0), 0);
    if (input.topCount > 0) writeTop(input, r, row, normalizer);
  }
}

function writeTop(input: LogprobsInput, r: number, row: Float32Array, normalizer: number): void {
  const { topTokens, topLogprobs, topCount } = input;
  assert(
    topTokens !== undefined && topLogprobs !== undefined,
    "Cannot write the likeliest tokens: topTokens and topLogprobs wanted",
  );
  const best = Array.from(row.keys())
    .sort((a, b) => at(row, b) - at(row, a) || a - b)
    .slice(0, topCount);
  best.forEach((token, place) => {
    i32(topTokens)[r * topCount + place] = token;
    f32(topLogprobs)[r * topCount + place] = at(row, token) - normalizer;
  });
}

function logSumExp(row: Float32Array): number {
  const max = maxOf(row);
  return max + Math.log(row.reduce((sum, value) => sum + Math.exp(value - max), 0));
}
