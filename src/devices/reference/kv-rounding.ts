/**
 * The values of a vector after rounding to a KV format, as f32.
 *
 *   f32, f16, bf16   each number by itself, rounded to nearest even
 *   i8, fp8          scale * q: scale = bf16(max |x| / largest), q nearest to x / scale, ties to
 *                    even; i8: whole numbers, largest 127; fp8: e4m3fn, largest 448
 *
 * The scale is that of one token's key or value, for one kv head. It is rounded to bf16 before it
 * divides, so its rounding costs no accuracy; bf16 has the exponents of f32, so that small vectors
 * keep their bits, which f16 would not give. A vector that holds NaN or infinity becomes NaN.
 *
 * With a scale that was calibrated for the whole tensor: q = saturate(round(x / scale)), an i8
 * down to -128. The result for NaN is then device-specific.
 *
 * Source of the fp8 numbers: Micikevicius et al. 2022, "FP8 formats for deep learning".
 */
import { absMaxOf, bf16FromF32, f16FromF32, f32FromBf16, f32FromF16 } from "#tensor";
import type { KvFormat } from "../device-data.ts";
import { roundHalfEven } from "./quantize.ts";

/** The numbers of an 8-bit format. */
interface Numbers {
  /** Scales map the largest element of a vector to this. */
  readonly largest: number;
  /** The number nearest to `quotient`, saturated at the largest. */
  readonly nearest: (quotient: number) => number;
}

const scaled: Readonly<Record<"i8" | "fp8", Numbers>> = {
  i8: {
    largest: 127,
    nearest: (quotient) => Math.max(Math.min(roundHalfEven(quotient), 127), -128),
  },
  fp8: { largest: 448, nearest: nearestFp8 },
};

/** The smallest exponent of e4m3fn; below it numbers are a fixed step apart. */
const fp8ExponentMin = -6;

/**
 * `values` [D], one head's key or value of one token, rounded to `format`. `scale`: calibrated, for
 * `i8` and `fp8` only; absent, the vector has its own.
 */
export function roundKv(values: Float32Array, format: KvFormat, scale?: number): Float32Array {
  switch (format) {
    case "f32":
      return values.slice();
    case "f16":
      return values.map((value) => f32FromF16(f16FromF32(value)));
    case "bf16":
      return values.map(roundToBf16);
    case "i8":
    case "fp8":
      return roundScaled(values, scaled[format], scale);
  }
}

function roundScaled(
  values: Float32Array,
  { largest, nearest }: Numbers,
  calibrated?: number,
): Float32Array {
  const scale = calibrated ?? roundToBf16(absMaxOf(values) / largest);
  if (!Number.isFinite(scale)) return values.map(() => Number.NaN);
  if (scale === 0) return values.map(() => 0);
  return values.map((value) => nearest(Math.fround(value / scale)) * scale);
}

/** Three bits behind the leading one: an eighth of the power of two at or below the number. */
function nearestFp8(quotient: number): number {
  const size = Math.min(Math.abs(quotient), scaled.fp8.largest);
  const exponent = Math.max(Math.floor(Math.log2(size)), fp8ExponentMin);
  const step = 2 ** (exponent - 3);
  return (quotient < 0 ? -1 : 1) * roundHalfEven(size / step) * step;
}

function roundToBf16(value: number): number {
  return f32FromBf16(bf16FromF32(value));
}
