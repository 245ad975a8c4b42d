/**
 * Tables of rotary angles. Frequencies and angles are rounded to f32 where Hugging Face rounds
 * them, because a rounded frequency times a large position is another angle.
 *
 * Sources: Su et al. 2021, "RoFormer"; Peng et al. 2023, "YaRN"; Ding et al. 2024, "LongRoPE";
 * Llama 3.1's reference code for `llama3`.
 */
import type { RopeScaling, RopeSpec } from "./decoder-spec.ts";

/** Size of a table, and the parameters of its angles. */
export interface RopeTableOptions {
  /** Rows: positions 0 up to this. It may depend on memory; the angles do not depend on it. */
  readonly positions: number;
  /**
   * Positions that the model was trained for, `positions` by default. Later positions, which only
   * streaming reaches, have angles that are not rounded to f32: at position 10^6 that would be an
   * error of 0.03 radians, and there is no other implementation to match.
   */
  readonly modelTokens?: number;
  /** Length of the longest served sequence, `positions` by default: `ropeFrequencies`. */
  readonly servedTokens?: number;
}

/**
 * [positions, rotaryDim]: for each position the cosines of rotaryDim / 2 angles, then their sines,
 * all multiplied by the attention factor.
 */
export function ropeTable(rope: RopeSpec, options: RopeTableOptions): Float32Array {
  const { positions, modelTokens = positions, servedTokens = positions } = options;
  const frequencies = ropeFrequencies(rope, servedTokens);
  const factor = ropeAttentionFactor(rope);
  const half = frequencies.length;
  const table = new Float32Array(positions * rope.rotaryDim);
  for (let position = 0; position < positions; position++) {
    const start = position * rope.rotaryDim;
    frequencies.forEach((frequency, i) => {
      const exact = position * frequency;
      const angle = position < modelTokens ? Math.fround(exact) : exact;
      table[start + i] = Math.fround(Math.cos(angle)) * factor;
      table[start + half + i] = Math.fround(Math.sin(angle)) * factor;
    });
  }
  return table;
}

/**
 * [rotaryDim / 2] radians per position, falling. `servedTokens` is the length of the longest served
 * sequence, given by the model and the settings, whatever memory there is.
 *
 * With `longrope`, transformers uses the short factors for a sequence up to the original context
 * and the long ones for a longer one, and recomputes everything when a sequence grows past that
 * length. Keys in a cache that sequences share cannot change their angles. So one list is used for
 * all: the long factors where a sequence may become longer than the original context.
 */
export function ropeFrequencies(rope: RopeSpec, servedTokens: number): Float32Array {
  const periods = Float32Array.from({ length: rope.rotaryDim / 2 }, (_, i) => {
    const exponent = Math.fround((2 * i) / rope.rotaryDim);
    return rope.theta ** exponent;
  });
  const plain = periods.map((period) => 1 / period);
  const { scaling } = rope;
  switch (scaling.kind) {
    case "default":
      return plain;
    case "linear":
      return plain.map((frequency) => frequency / scaling.factor);
    case "llama3":
      return plain.map((frequency) => llama3Frequency(frequency, scaling));
    case "yarn":
      return yarnFrequencies(plain, rope, scaling);
    case "longrope": {
      const long = servedTokens > scaling.originalContextTokens;
      const factors = long ? scaling.longFactors : scaling.shortFactors;
      // The product is rounded, but the quotient is not rounded a second time.
      return periods.map((period, i) => 1 / Math.fround(period * Math.fround(factors[i] ?? 1)));
    }
  }
}

/**
 * Low frequencies are divided, high ones kept, those between blended. Rounded after every step, as
 * in Llama's code: the last bit of a frequency changes the angle of position 131,071 by 0.008 times
 * the frequency.
 */
function llama3Frequency(
  frequency: number,
  scaling: Extract<RopeScaling, { kind: "llama3" }>,
): number {
  const { factor, lowFrequencyFactor, highFrequencyFactor, originalContextTokens } = scaling;
  const { fround } = Math;
  const wave = fround(fround(2 * Math.PI) / frequency);
  if (wave > originalContextTokens / lowFrequencyFactor) return frequency / factor;
  if (wave < originalContextTokens / highFrequencyFactor) return frequency;
  const above = fround(fround(originalContextTokens / wave) - lowFrequencyFactor);
  const kept = fround(above / (highFrequencyFactor - lowFrequencyFactor));
  const divided = fround(fround(fround(1 - kept) * frequency) / factor);
  return divided + fround(kept * frequency);
}

/** The same idea with a ramp over dimensions rather than over wave counts. */
function yarnFrequencies(
  plain: Float32Array,
  rope: RopeSpec,
  scaling: Extract<RopeScaling, { kind: "yarn" }>,
): Float32Array {
  const dimensionOf = (rotations: number): number =>
    (rope.rotaryDim * Math.log(scaling.originalContextTokens / (rotations * 2 * Math.PI))) /
    (2 * Math.log(rope.theta));
  const from = dimensionOf(scaling.betaFast);
  const to = dimensionOf(scaling.betaSlow);
  const low = Math.max(scaling.truncate ? Math.floor(from) : from, 0);
  const high = Math.min(scaling.truncate ? Math.ceil(to) : to, rope.rotaryDim - 1);
  const width = high === low ? 0.001 : high - low;
  return plain.map((frequency, i) => {
    const stretched = Math.min(Math.max((i - low) / width, 0), 1);
    return (frequency / scaling.factor) * stretched + frequency * (1 - stretched);
  });
}

/** Factor of cosines and sines. */
export function ropeAttentionFactor({ scaling }: RopeSpec): number {
  return "attentionFactor" in scaling ? scaling.attentionFactor : 1;
}
