/**
 * Blocks of 32 elements with one f16 scale `d`, and in the `_1` types one f16 minimum `m`.
 * Element j of the first half lies in the low nibble of byte j, of the second half in the high one.
 * Layouts: ggml's block_q4_0, block_q4_1, block_q5_0, block_q5_1, block_q8_0.
 */
import { f32FromF16 } from "#tensor";

const HALF = 16;

/** d f16 · 16 bytes of nibbles. Value: d * (q - 8). */
export function dequantizeQ4_0(block: DataView, at: number, out: Float32Array, to: number): void {
  const scale = f32FromF16(block.getUint16(at, true));
  for (let j = 0; j < HALF; j++) {
    const byte = block.getUint8(at + 2 + j);
    out[to + j] = scale * ((byte & 15) - 8);
    out[to + HALF + j] = scale * ((byte >> 4) - 8);
  }
}

/** d f16 · m f16 · 16 bytes of nibbles. Value: d * q + m. */
export function dequantizeQ4_1(block: DataView, at: number, out: Float32Array, to: number): void {
  const scale = f32FromF16(block.getUint16(at, true));
  const minimum = f32FromF16(block.getUint16(at + 2, true));
  for (let j = 0; j < HALF; j++) {
    const byte = block.getUint8(at + 4 + j);
    out[to + j] = scale * (byte & 15) + minimum;
    out[to + HALF + j] = scale * (byte >> 4) + minimum;
  }
}

/** d f16 · 32 fifth bits · 16 bytes of nibbles. Value: d * (q - 16). */
export function dequantizeQ5_0(block: DataView, at: number, out: Float32Array, to: number): void {
  const scale = f32FromF16(block.getUint16(at, true));
  const fifths = block.getUint32(at + 2, true);
  for (let j = 0; j < HALF; j++) {
    const byte = block.getUint8(at + 6 + j);
    out[to + j] = scale * (((byte & 15) | fifthBit(fifths, j)) - 16);
    out[to + HALF + j] = scale * (((byte >> 4) | fifthBit(fifths, j + HALF)) - 16);
  }
}

/** d f16 · m f16 · 32 fifth bits · 16 bytes of nibbles. Value: d * q + m. */
export function dequantizeQ5_1(block: DataView, at: number, out: Float32Array, to: number): void {
  const scale = f32FromF16(block.getUint16(at, true));
  const minimum = f32FromF16(block.getUint16(at + 2, true));
  const fifths = block.getUint32(at + 4, true);
  for (let j = 0; j < HALF; j++) {
    const byte = block.getUint8(at + 8 + j);
    out[to + j] = scale * ((byte & 15) | fifthBit(fifths, j)) + minimum;
    out[to + HALF + j] = scale * ((byte >> 4) | fifthBit(fifths, j + HALF)) + minimum;
  }
}

/** d f16 · 32 signed bytes. Value: d * q. */
export function dequantizeQ8_0(block: DataView, at: number, out: Float32Array, to: number): void {
  const scale = f32FromF16(block.getUint16(at, true));
  for (let j = 0; j < 2 * HALF; j++) out[to + j] = scale * block.getInt8(at + 2 + j);
}

function fifthBit(fifths: number, element: number): number {
  return ((fifths >>> element) & 1) << 4;
}
