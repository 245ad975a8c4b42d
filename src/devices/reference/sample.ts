import { uniformAt } from "#base";
import { argmax, at, maxOf, scaleRow, softmax } from "#tensor";
import type { SampleInput } from "../ops.ts";
import { f32, f32Rows, i32, u32 } from "./host-tensor.ts";

/** Sampling parameters of one row; the fields of `SampleInput`. */
export interface RowSettings {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  /** In [0, 1). */
  readonly uniform: number;
}

/** One token per row. Randomness is a function of (seed, position) alone. */
export function sample(input: SampleInput): void {
  const logits = f32Rows(input.logits);
  const out = i32(input.out);
  const seeds = u32(input.seeds);
  for (let r = 0; r < input.count; r++) {
    const seed = { low: at(seeds, 2 * r), high: at(seeds, 2 * r + 1) };
    out[r] = sampleRow(logits.row(r), {
      temperature: at(f32(input.temperature), r),
      topK: at(i32(input.topK), r),
      topP: at(f32(input.topP), r),
      minP: at(f32(input.minP), r),
      uniform: uniformAt(seed, at(i32(input.positions), r)),
    });
  }
}

/** The token that is sampled from a row of logits. */
export function sampleRow(logits: Float32Array, settings: RowSettings): number {
  if (settings.temperature === 0) return argmax(logits);
  const scaled = logits.map((logit) => logit / settings.temperature);
  keepMinP(scaled, settings.minP);
  keepTopK(scaled, settings.topK);
  const probabilities = softmax(scaled);
  keepTopP(probabilities, settings.topP);
  return invert(probabilities, settings.uniform);
}

/** Sets tokens less likely than `minP` times the likeliest to -Infinity. */
function keepMinP(scaled: Float32Array, minP: number): void {
  if (minP <= 0) return;
  const least = maxOf(scaled) + Math.log(minP);
  forbid(scaled, (value) => value < least);
}

/** Sets tokens below the k-th largest to -Infinity. */
function keepTopK(scaled: Float32Array, topK: number): void {
  if (topK <= 0 || topK >= scaled.length) return;
  const kth = scaled.slice().sort().at(-topK) ?? Number.NEGATIVE_INFINITY;
  forbid(scaled, (value) => value < kth);
}

function forbid(scaled: Float32Array, test: (value: number) => boolean): void {
  scaled.forEach((value, token) => {
    if (test(value)) scaled[token] = Number.NEGATIVE_INFINITY;
  });
}

/** The smallest set of the likeliest tokens that reaches `topP`; the rest becomes 0. */
function keepTopP(probabilities: Float64Array, topP: number): void {
  if (topP >= 1) return;
  const falling = Array.from(probabilities.keys()).sort(
    (a, b) => at(probabilities, b) - at(probabilities, a) || a - b,
  );
  let sum = 0;
  for (const token of falling) {
    const kept = sum < topP;
    sum += at(probabilities, token);
    if (!kept) probabilities[token] = 0;
  }
  scaleRow(probabilities, 1 / probabilities.reduce((total, value) => total + value, 0));
}

/** The first token, by rising id, at which the running sum exceeds `uniform`. */
function invert(probabilities: Float64Array, uniform: number): number {
  let sum = 0;
  let last = 0;
  for (const [token, probability] of probabilities.entries()) {
    if (probability === 0) continue;
    sum += probability;
    last = token;
    if (sum > uniform) break;
  }
  return last;
}
