/** How long prompts and outputs of a kind of traffic are, made up from a mean and a spread. */
import { assert, type Seed, seedFrom, uniformAt } from "#base";

/** Lengths of one side of requests, in tokens: log-normal, cut off at `tokensMax`. */
export interface LengthShape {
  /** Mean of the sampled lengths, after the cut. */
  readonly meanTokens: number;
  /** Standard deviation of the lengths' natural logarithms: 1 puts two thirds within e times. */
  readonly spread: number;
  readonly tokensMax: number;
}

/** Both sides of requests. */
export interface LengthMix {
  readonly prompt: LengthShape;
  readonly output: LengthShape;
}

/** One request's lengths, 1 or more each. */
export interface RequestLengths {
  readonly promptTokens: number;
  readonly outputTokens: number;
}

/** Traffic in common use for comparing engines. */
export type LengthMixName = "shareGpt" | "alpaca";

/**
 * Means: W. Kwon et al. 2023, "Efficient memory management for large language model serving with
 * PagedAttention", section 6.1. The paper plots the spreads and gives no numbers. Those here match
 * the outlines of its plots: prompts of ShareGPT range from a line to a pasted document,
 * instructions of Alpaca are one sentence; answers vary by about e. The cuts are those of the
 * scripts by which such data are served to models of 2048 tokens: 1024 a side.
 */
export const LENGTH_MIXES: Readonly<Record<LengthMixName, LengthMix>> = {
  shareGpt: {
    prompt: { meanTokens: 161.31, spread: 1.3, tokensMax: 1024 },
    output: { meanTokens: 337.99, spread: 1.0, tokensMax: 1024 },
  },
  alpaca: {
    prompt: { meanTokens: 19.31, spread: 0.5, tokensMax: 256 },
    output: { meanTokens: 58.45, spread: 1.0, tokensMax: 512 },
  },
};

/** Halving a range of e^5 and more 40 times leaves less than rounding does. */
const HALVED_RANGE = 5;
const HALVINGS = 40;

/** The mix with all spreads `factor` times as large, and the same means. */
export function withSpread({ prompt, output }: LengthMix, factor: number): LengthMix {
  return {
    prompt: { ...prompt, spread: prompt.spread * factor },
    output: { ...output, spread: output.spread * factor },
  };
}

/**
 * The lengths of `count` requests, the same for the same seed. Their mean is the wanted one up to
 * rounding, whatever the draws are: the median is fitted to them.
 */
export function drawLengths(
  mix: LengthMix,
  { seed, count }: { readonly seed: number; readonly count: number },
): RequestLengths[] {
  const source = seedFrom(seed);
  const outputs = lengthsOf(mix.output, normalDraws(source, { count, lane: 2 }));
  return lengthsOf(mix.prompt, normalDraws(source, { count, lane: 0 })).map(
    (promptTokens, place) => ({ promptTokens, outputTokens: outputs[place] ?? 1 }),
  );
}

/** The median's logarithm is found by halving: the mean grows with it. */
function lengthsOf(shape: LengthShape, draws: readonly number[]): number[] {
  const { meanTokens, spread, tokensMax } = shape;
  assert(meanTokens >= 1 && meanTokens < tokensMax, `No mean of ${meanTokens} up to ${tokensMax}`);
  const lengths = (logMedian: number) =>
    draws.map((draw) =>
      Math.min(tokensMax, Math.max(1, Math.round(Math.exp(logMedian + spread * draw)))),
    );
  let low = Math.log(meanTokens) - spread * spread - HALVED_RANGE;
  let high = Math.log(meanTokens) + HALVED_RANGE;
  for (let step = 0; step < HALVINGS; step++) {
    const middle = (low + high) / 2;
    if (mean(lengths(middle)) < meanTokens) low = middle;
    else high = middle;
  }
  return lengths(high);
}

/** Standard normal draws. Source: G. Box, M. Muller 1958. Takes two lanes. */
function normalDraws(
  seed: Seed,
  { count, lane }: { readonly count: number; readonly lane: number },
): number[] {
  return Array.from({ length: count }, (_, place) => {
    const radius = Math.sqrt(-2 * Math.log(1 - uniformAt(seed, place, lane)));
    return radius * Math.cos(2 * Math.PI * uniformAt(seed, place, lane + 1));
  });
}

function mean(values: readonly number[]): number {
  return values.reduce((sum, value) => sum + value, 0) / values.length;
}
