/** Finds infinite numbers and NaN at the speed of memory: fast enough for whole checkpoints. */
import type { DType } from "./dtype.ts";
import { carriedBits } from "./vector.ts";

/** Types whose exponent of ones means infinity or NaN. */
type FloatType = Extract<DType, "f32" | "f16" | "bf16">;

/**
 * A mask of the exponent bits in 32 bits, which are one number or two, and an addend that carries
 * only from an exponent of ones into the bit above: other exponents do not carry, and no half
 * carries into the next one.
 */
const exponents: Readonly<Record<FloatType, readonly [mask: number, carry: number]>> = {
  f32: [0x7f800000, 0x00800000],
  bf16: [0x7f807f80, 0x00800080],
  f16: [0x7c007c00, 0x04000400],
};
const CARRIED = 0x80008000 | 0;
const CHUNK_BYTES = 2 ** 18;

/** The index of the first element that is infinite or NaN; null: there is none. */
export function findNonFinite(bytes: Uint8Array, dtype: FloatType): number | null {
  const size = dtype === "f32" ? 4 : 2;
  for (let start = 0; start < bytes.length; start += CHUNK_BYTES) {
    const chunk = bytes.subarray(start, start + CHUNK_BYTES);
    const [mask, carry] = exponents[dtype];
    if ((carriedBits(wordsOf(chunk), mask, carry) & CARRIED) === 0) continue;
    const view = new DataView(chunk.buffer, chunk.byteOffset, chunk.byteLength);
    for (let at = 0; at + size <= chunk.length; at += size) {
      const bits = size === 4 ? view.getUint32(at, true) : view.getUint16(at, true);
      const ones = size === 4 ? mask : mask & 0xffff;
      if ((bits & ones) === ones) return (start + at) / size;
    }
  }
  return null;
}

/** Bytes as words, padded with zeros. Copied where they do not begin at a word boundary. */
function wordsOf(bytes: Uint8Array): Int32Array {
  const isAligned = bytes.byteOffset % 4 === 0 && bytes.length % 4 === 0;
  if (isAligned) return new Int32Array(bytes.buffer, bytes.byteOffset, bytes.length / 4);
  const copy = new Uint8Array(Math.ceil(bytes.length / 4) * 4);
  copy.set(bytes);
  return new Int32Array(copy.buffer);
}
