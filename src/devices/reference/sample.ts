import { gumbelOf, type Seed, tokenWords } from "#base";
import { argmax, at, maxOf, softmax } from "#tensor";
import type { SampleInput } from "../ops.ts";
import { f32, f32Rows, i32, u32 } from "./host-tensor.ts";

/** Sampling parameters of one row; the fields of `SampleInput`. */
export interface RowSettings {
  readonly temperature: number;
  readonly topK: number;
  readonly topP: number;
  readonly minP: number;
  readonly seed: Seed;
  /** Of the token that is sampled. */
  readonly position: number;
}

/** One token per row. Randomness is a function of (seed, position, token) alone. */
export function sample(input: SampleInput): void {
  const logits = f32Rows(input.logits);
  const out = i32(input.out);
  const seeds = u32(input.seeds);
  for (let r = 0; r < input.count; r++) {
    out[r] = sampleRow(logits.row(r), {
      temperature: at(f32(input.temperature), r),
      topK: at(i32(input.topK), r),
      topP: at(f32(input.topP), r),
      minP: at(f32(input.minP), r),
      seed: { low: at(seeds, 2 * r), high: at(seeds, 2 * r + 1) },
      position: at(i32(input.positions), r),
    });
  }
}

/** The token that is sampled from a row of logits. */
export function sampleRow(logits: Float32Array, settings: RowSettings): number {
  const scaled = logits.map((logit) => logit / settings.temperature);
  // Without a largest number there is no distribution.
  if (settings.temperature === 0 || !Number.isFinite(maxOf(scaled))) return argmax(logits);
  keepMinP(scaled, settings.minP);
  keepTopK(scaled, settings.topK);
  keepTopP(scaled, settings.topP);
  return winner(scaled, settings);
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

/** Keeps the smallest set of the likeliest tokens that reaches `topP`. */
function keepTopP(scaled: Float32Array, topP: number): void {
  if (topP >= 1) return;
  const probabilities = softmax(scaled);
  const falling = Array.from(probabilities.keys()).sort(
    (a, b) => at(probabilities, b) - at(probabilities, a) || a - b,
  );
  let sum = 0;
  for (const token of falling) {
    const kept = sum < topP;
    sum += at(probabilities, token);
    if (!kept) scaled[token] = Number.NEGATIVE_INFINITY;
  }
}

/** The race: the token with the largest scaled logit + noise, of equals the lowest id. */
function winner(scaled: Float32Array, { seed, position }: RowSettings): number {
  let [best, token] = [Number.NEGATIVE_INFINITY, 0];
  for (let first = 0; first < scaled.length; first += 4) {
    tokenWords(seed, position, first / 4).forEach((word, lane) => {
      const key = (scaled[first + lane] ?? Number.NEGATIVE_INFINITY) + gumbelOf(word);
      if (key > best) [best, token] = [key, first + lane];
    });
  }
  return token;
}
