/**
 * Gumbel noise of tokens: the token with the largest scaled logit + noise is a sample of the
 * softmax, and the noise is a pure function of (seed, position, token).
 *
 * Sources: E. Gumbel 1954, "Statistical theory of extreme values and some practical applications";
 * for drafts M. Daliri, C. Musco, A. Suresh 2024, "Coupling without communication and
 * drafter-invariant speculative decoding" (arXiv 2408.07978).
 */
import { philox, type Seed } from "./rng.ts";

/** Third counter word of the noise's Philox blocks; `uniformAt` has 0 there. */
const DOMAIN = 1;
const ROOT_HALF = Math.SQRT1_2;
/** The series of `logarithm` ends with the power of this odd number. */
const LAST_ODD = 23;

/**
 * The random words of the four tokens 4 * block, 4 * block + 1 and so on at a position: one block
 * of the generator gives four numbers.
 */
export function tokenWords(
  seed: Seed,
  position: number,
  block: number,
): [number, number, number, number] {
  return philox([position >>> 0, block >>> 0, DOMAIN, 0], seed);
}

/**
 * Gumbel noise of a random word: -ln(-ln u) with u = (word + 1/2) / 2^32, which is neither 0 nor 1.
 * Between -3.14 and 22.88. Every device computes the same bits.
 */
export function gumbelOf(word: number): number {
  return -logarithm(-logarithm((word + 0.5) / 2 ** 32));
}

/** The noise of a token at a position. */
export function gumbelAt(seed: Seed, position: number, token: number): number {
  return gumbelOf(tokenWords(seed, position, Math.floor(token / 4))[token % 4] ?? 0);
}

/**
 * ln(value) to 4 units in the last place, for value > 0. Libraries differ in the last bits of a
 * logarithm, so this one has only operations that IEEE 754 defines, in a fixed order: with
 * value = 2^e * m and s = (m - 1) / (m + 1) it is e ln 2 + 2 (s + s^3 / 3 + s^5 / 5 + ...). As
 * |s| <= 0.172, the terms that are left out are below 2^-58 of the sum.
 */
function logarithm(value: number): number {
  let [mantissa, exponent] = [value, 0];
  for (; mantissa < ROOT_HALF; exponent--) mantissa *= 2;
  for (; mantissa >= 2 * ROOT_HALF; exponent++) mantissa /= 2;
  const s = (mantissa - 1) / (mantissa + 1);
  const square = s * s;
  let series = 1 / LAST_ODD;
  for (let odd = LAST_ODD - 2; odd >= 3; odd -= 2) series = series * square + 1 / odd;
  return exponent * Math.LN2 + 2 * (s + s * (square * series));
}
