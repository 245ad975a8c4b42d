/**
 * The "K" types: blocks of 256 elements, cut into groups with small scales of their own, which
 * share one or two f16 scales. Layouts: ggml's block_q4_K, block_q5_K, block_q6_K.
 */
import { f32FromF16 } from "#tensor";

const GROUP = 32;
const GROUP_PAIRS = 4;

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
  for (let run = 0; run < 8; run++) {
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
