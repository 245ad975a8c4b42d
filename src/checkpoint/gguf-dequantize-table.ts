/**
 * Types whose four bits choose from a table of 16 values instead of counting steps. In each run of
 * 32 elements, element j of the first half lies in the low nibble of byte j, of the second half in
 * the high one. Layouts: ggml's block_iq4_nl, block_iq4_xs, block_mxfp4.
 */
import { f32FromF16, floatsOf } from "#tensor";

const HALF = 16;
const RUN = 32;
const RUNS = 8;

/** The values of IQ4_NL and IQ4_XS: closer together near 0, where most weights are. */
const NONLINEAR = Int8Array.of(
  ...[-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113],
);

/** Twice the values of E2M1, the four-bit float of OCP's Microscaling formats (2023). */
const E2M1_DOUBLED = Int8Array.of(...[0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12]);

/**
 * 2^(e - 128) by e, half of what an exponent e means, for the table has doubled values. By bits:
 * the first two are denormal. ggml gives 255 no meaning of its own, where OCP has NaN.
 */
const HALF_POWERS = floatsOf(
  Int32Array.from({ length: 256 }, (_, e) => (e < 2 ? 0x200000 << e : (e - 1) << 23)),
);

/** d f16 · 16 bytes of nibbles. Value: d * table[q]. */
export function dequantizeIQ4NL(block: DataView, at: number, out: Float32Array, to: number): void {
  const scale = f32FromF16(block.getUint16(at, true));
  for (let j = 0; j < HALF; j++) {
    const byte = block.getUint8(at + 2 + j);
    out[to + j] = scale * chosen(NONLINEAR, byte & 15);
    out[to + HALF + j] = scale * chosen(NONLINEAR, byte >> 4);
  }
}

/**
 * d f16 · upper two bits of 8 scales · their low nibbles in 4 bytes · 128 bytes of nibbles, a scale
 * for each 32 elements. Value: d * (scale - 32) * table[q].
 */
export function dequantizeIQ4XS(block: DataView, at: number, out: Float32Array, to: number): void {
  const d = f32FromF16(block.getUint16(at, true));
  const highs = block.getUint16(at + 2, true);
  for (let run = 0; run < RUNS; run++) {
    const low = (block.getUint8(at + 4 + (run >> 1)) >> (4 * (run & 1))) & 15;
    const scale = d * ((low | (((highs >> (2 * run)) & 3) << 4)) - 32);
    for (let j = 0; j < HALF; j++) {
      const byte = block.getUint8(at + 8 + HALF * run + j);
      out[to + RUN * run + j] = scale * chosen(NONLINEAR, byte & 15);
      out[to + RUN * run + HALF + j] = scale * chosen(NONLINEAR, byte >> 4);
    }
  }
}

/** An exponent e in a byte · 16 bytes of nibbles. Value: 2^(e - 127) * E2M1's value of q. */
export function dequantizeMXFP4(block: DataView, at: number, out: Float32Array, to: number): void {
  const scale = HALF_POWERS[block.getUint8(at)] ?? 0;
  for (let j = 0; j < HALF; j++) {
    const byte = block.getUint8(at + 1 + j);
    out[to + j] = scale * chosen(E2M1_DOUBLED, byte & 15);
    out[to + HALF + j] = scale * chosen(E2M1_DOUBLED, byte >> 4);
  }
}

/** A nibble is an index of each of the tables. */
function chosen(table: Int8Array, nibble: number): number {
  return table[nibble] ?? 0;
}
