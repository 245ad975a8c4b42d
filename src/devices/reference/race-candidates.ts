import { gumbelAt } from "#base";
import { at, maxOf } from "#tensor";
import { racedTokensOf } from "../drafter-counts.ts";
import type { RaceCandidatesInput } from "../ops.ts";
import { f32, i32, u32 } from "./host-tensor.ts";

/** How far each of a row's candidates is behind the winner of the race. */
export function raceCandidates(input: RaceCandidatesInput): void {
  const perRow = racedTokensOf(input);
  for (let s = 0; s < input.count; s++) {
    const temperature = at(f32(input.temperature), s);
    if (temperature === 0) continue;
    for (let row = s * input.before; row < (s + 1) * input.before; row++) {
      const first = row * perRow;
      const logprobs = f32(input.topLogprobs).subarray(first, first + perRow);
      const scaled = logprobs.map((logprob) => logprob / temperature);
      filter(scaled, input, s);
      const keys = keysOf(scaled, i32(input.topTokens).subarray(first, first + perRow), input, s);
      const best = maxOf(keys);
      keys.forEach((key, place) => {
        logprobs[place] = Number.isFinite(key) ? key - best : Number.NEGATIVE_INFINITY;
      });
    }
  }
}

/** Sets candidates that the sequence's filters drop to -Infinity. */
function filter(scaled: Float32Array, input: RaceCandidatesInput, s: number): void {
  const [topK, topP, minP] = [
    at(i32(input.topK), s),
    at(f32(input.topP), s),
    at(f32(input.minP), s),
  ];
  const [best = 0] = scaled;
  const least = minP > 0 ? best + Math.log(minP) : Number.NEGATIVE_INFINITY;
  const isOpen = (value: number, place: number) =>
    value >= least && (topK <= 0 || place < topK) ? value : Number.NEGATIVE_INFINITY;
  scaled.set(scaled.map(isOpen));
  if (topP >= 1) return;
  const weights = Array.from(scaled, (value) => Math.exp(value - best));
  const target = topP * weights.reduce((sum, weight) => sum + weight, 0);
  let sum = 0;
  weights.forEach((weight, place) => {
    if (place > 0 && sum >= target) scaled[place] = Number.NEGATIVE_INFINITY;
    sum += weight;
  });
}

/** Scaled log-probabilities + noise, in f64. */
function keysOf(
  scaled: Float32Array,
  tokens: Int32Array,
  input: RaceCandidatesInput,
  s: number,
): Float64Array {
  const seeds = u32(input.seeds);
  const seed = { low: at(seeds, 2 * s), high: at(seeds, 2 * s + 1) };
  const position = at(i32(input.positions), s) + input.ahead;
  const { tokenMap } = input;
  return Float64Array.from(scaled, (value, place) => {
    const token = at(tokens, place);
    const own = tokenMap === undefined ? token : at(i32(tokenMap), token);
    return value + gumbelAt(seed, position, own);
  });
}
