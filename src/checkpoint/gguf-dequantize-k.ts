/**
 * The "K" types: blocks of 256 elements, cut into groups with small scales of their own, which
 * share one or two f16 scales. Layouts: ggml's block_q2_K, block_q3_K, block_q4_K, block_q5_K,
 * block_q6_K.
 */
import { f32FromF16 } from "#tensor";

const GROUP = 32;
const GROUP_PAIRS = 4;
/** Runs of 32 elements in a block; those of 2 and 3 bits have a scale for each half of one. */
const RUNS = 8;
const HALF_RUNS = 16;
const HALF = 16;

/** The 6-bit scale and minimum of a group. */
interface GroupScale {
  readonly scale: number;
  readonly minimum: number;
}

/**
 * Eight pairs of 6 bits in 12 bytes: bytes 0-3 hold the scales and 4-7 the minima of groups 0-3
 * in their low 6 bits; bytes 8-11 hold the low nibbles of groups 4-7, whose upper two bits are the
 * upper two of bytes 0-7.
 */
function groupScale(block: DataView, at: number, group: number): GroupScale {
  if (group < 4) {
    const scale = block.getUint8(at + group) & 63;
    return { scale, minimum: block.getUint8(at + group + 4) & 63 };
  }
  const low = block.getUint8(at + group + 4);
  const scale = (low & 15) | ((block.getUint8(at + group - 4) >> 6) << 4);
  return { scale, minimum: (low >> 4) | ((block.getUint8(at + group) >> 6) << 4) };
}

/**
 * 16 bytes, each a 4-bit scale below a 4-bit minimum · 64 of bit pairs · d, dmin f16, a scale for
 * each 16 elements. Value: d * scale * q - dmin * minimum.
 */
export function dequantizeQ2K(block: DataView, at: number, out: Float32Array, to: number): void {
  const d = f32FromF16(block.getUint16(at + 80, true));
  const dmin = f32FromF16(block.getUint16(at + 82, true));
  for (let half = 0; half < HALF_RUNS; half++) {
    const packed = block.getUint8(at + half);
    const scale = d * (packed & 15);
    const minimum = dmin * (packed >> 4);
    const { pairs, shift } = pairsOf(half);
    for (let j = 0; j < HALF; j++) {
      const quantum = (block.getUint8(at + 16 + pairs + j) >> shift) & 3;
      out[to + HALF * half + j] = scale * quantum - minimum;
    }
  }
}

/**
 * 32 bytes of third bits, of which bit r belongs to run r · 64 of bit pairs · 12 of scales · d f16,
 * a scale for each 16 elements. Value: d * (scale - 32) * (q - 4).
 */
export function dequantizeQ3K(block: DataView, at: number, out: Float32Array, to: number): void {
  const d = f32FromF16(block.getUint16(at + 108, true));
  for (let half = 0; half < HALF_RUNS; half++) {
    const scale = d * (sixBits(block, at + 96, half) - 32);
    const { pairs, shift } = pairsOf(half);
    const thirds = at + HALF * (half & 1);
    for (let j = 0; j < HALF; j++) {
      const third = ((block.getUint8(thirds + j) >> (half >> 1)) & 1) << 2;
      const quantum = ((block.getUint8(at + 32 + pairs + j) >> shift) & 3) | third;
      out[to + HALF * half + j] = scale * (quantum - 4);
    }
  }
}

/** First byte and shift of a half run's bit pairs: bytes 0-31 have runs 0-3, 32-63 the rest. */
function pairsOf(half: number): { readonly pairs: number; readonly shift: number } {
  const run = half >> 1;
  return { pairs: GROUP * (run >> 2) + HALF * (half & 1), shift: 2 * (run & 3) };
}

/**
 * Scale `index` of 16 in 12 bytes: bytes 0-7 hold the low nibbles of scales 0-7 below those of
 * scales 8-15; bytes 8-11 the upper two bits, of every fourth scale each.
 */
function sixBits(block: DataView, at: number, index: number): number {
  const low = (block.getUint8(at + (index & 7)) >> (4 * (index >> 3))) & 15;
  const high = (block.getUint8(at + 8 + (index & 3)) >> (2 * (index >> 2))) & 3;
  return low | (high << 4);
}

/** d, dmin f16 · 12 bytes of scales · 128 of nibbles. Value: d * scale * q - dmin * minimum. */
export function dequantizeQ4K(block: DataView, at: number, out: Float32Array, to: number): void {
  const d = f32FromF16(block.getUint16(at, true));
  const dmin = f32FromF16(block.getUint16(at + 2, true));
  for (let group = 0; group < 2 * GROUP_PAIRS; group++) {
    const { scale, minimum } = groupScale(block, at + 4, group);
    const nibbles = at + 16 + GROUP * (group >> 1);
    const shift = 4 * (group & 1);
    for (let j = 0; j < GROUP; j++) {
      const quantum = (block.getUint8(nibbles + j) >> shift) & 15;
      out[to + GROUP * group + j] = d * scale * quantum - dmin * minimum;
    }
  }
}

/** As Q4_K, with 32 bytes of fifth bits between scales and nibbles: bit g belongs to group g. */
export function dequantizeQ5K(block: DataView, at: number, out: Float32Array, to: number): void {
  const d = f32FromF16(block.getUint16(at, true));
  const dmin = f32FromF16(block.getUint16(at + 2, true));
  for (let group = 0; group < 2 * GROUP_PAIRS; group++) {
    const { scale, minimum } = groupScale(block, at + 4, group);
    const nibbles = at + 48 + GROUP * (group >> 1);
    const shift = 4 * (group & 1);
    for (let j = 0; j < GROUP; j++) {
      const fifth = ((block.getUint8(at + 16 + j) >> group) & 1) << 4;
      const quantum = ((block.getUint8(nibbles + j) >> shift) & 15) | fifth;
      out[to + GROUP * group + j] = d * scale * quantum - dmin * minimum;
    }
  }
}

/**
 * 128 bytes of low nibbles · 64 of upper bit pairs · 16 signed scales · d f16, a scale for each 16
 * elements. Value: d * scale * (q - 32). Each half of the block holds four runs of 32 elements.
 */
export function dequantizeQ6K(block: DataView, at: number, out: Float32Array, to: number): void {
  const d = f32FromF16(block.getUint16(at + 208, true));
  for (let run = 0; run < RUNS; run++) {
    const half = run >> 2;
    const inHalf = run & 3;
    const lows = at + 64 * half + GROUP * (inHalf & 1);
    const highs = at + 128 + GROUP * half;
    const scales = at + 192 + 2 * run;
    for (let j = 0; j < GROUP; j++) {
      const low = (block.getUint8(lows + j) >> (4 * (inHalf >> 1))) & 15;
      const high = (block.getUint8(highs + j) >> (2 * inHalf)) & 3;
      const scale = block.getInt8(scales + (j >> 4));
      out[to + GROUP * run + j] = d * scale * ((low | (high << 4)) - 32);
    }
  }
}
