/**
 * Counter-based randomness: a number is a pure function of (seed, position, lane), so a result
 * never depends on the batch it was computed in, and every device computes the same bits.
 *
 * Philox 4x32-10. Source: J. Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3".
 */

const MULTIPLIER_0 = 0xd2511f53;
const MULTIPLIER_1 = 0xcd9e8d57;
const WEYL_0 = 0x9e3779b9;
const WEYL_1 = 0xbb67ae85;
const ROUNDS = 10;

/** High 32 bits of the product of two unsigned 32-bit integers. */
function multiplyHigh(a: number, b: number): number {
  const aLow = a & 0xffff;
  const aHigh = a >>> 16;
  const bLow = b & 0xffff;
  const bHigh = b >>> 16;
  const middle = aHigh * bLow + ((aLow * bLow) >>> 16);
  const carry = aLow * bHigh + (middle & 0xffff);
  return (aHigh * bHigh + Math.floor(middle / 0x10000) + Math.floor(carry / 0x10000)) >>> 0;
}

/** A 64-bit seed as two unsigned halves. */
export interface Seed {
  readonly low: number;
  readonly high: number;
}

export type Counter = readonly [number, number, number, number];

/** The four 32-bit outputs of one Philox block. */
export function philox(counter: Counter, seed: Seed): [number, number, number, number] {
  let [c0, c1, c2, c3] = counter;
  let k0 = seed.low >>> 0;
  let k1 = seed.high >>> 0;
  for (let round = 0; round < ROUNDS; round++) {
    const high0 = multiplyHigh(MULTIPLIER_0, c0);
    const low0 = Math.imul(MULTIPLIER_0, c0) >>> 0;
    const high1 = multiplyHigh(MULTIPLIER_1, c2);
    const low1 = Math.imul(MULTIPLIER_1, c2) >>> 0;
    [c0, c1, c2, c3] = [(high1 ^ c1 ^ k0) >>> 0, low1, (high0 ^ c3 ^ k1) >>> 0, low0];
    k0 = (k0 + WEYL_0) >>> 0;
    k1 = (k1 + WEYL_1) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/**
 * A uniform random number in [0, 1) with 24 bits, exact in f32. `position` is the token's position
 * in its sequence; `lane` distinguishes several numbers for one position (0 is the sampler's).
 */
export function uniformAt(seed: Seed, position: number, lane = 0): number {
  const [word] = philox([position >>> 0, lane >>> 0, 0, 0], seed);
  return (word >>> 8) / 0x1000000;
}

/** Splits an integer seed (number or bigint, any sign) into the halves that kernels take. */
export function seedFrom(value: number | bigint): Seed {
  const bits = BigInt.asUintN(64, BigInt(value));
  return { low: Number(bits & 0xffffffffn), high: Number(bits >> 32n) };
}
