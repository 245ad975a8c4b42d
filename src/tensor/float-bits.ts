/** Conversions between f32 and the 16-bit floats, round to nearest even, over whole arrays. */

const float = new Float32Array(1);
const bits = new Uint32Array(float.buffer);

/** bf16 bits of an f32 value. NaN stays NaN. */
export function bf16FromF32(value: number): number {
  float[0] = value;
  const word = bits[0] as number;
  if (Number.isNaN(value)) return ((word >>> 16) | 0x40) & 0xffff;
  return ((word + 0x7fff + ((word >>> 16) & 1)) >>> 16) & 0xffff;
}

export function f32FromBf16(half: number): number {
  bits[0] = half << 16;
  return float[0] as number;
}

/** f16 bits of an f32 value, with subnormals and overflow to infinity. */
export function f16FromF32(value: number): number {
  float[0] = value;
  const word = bits[0] as number;
  const sign = (word >>> 16) & 0x8000;
  const exponent = (word >>> 23) & 0xff;
  const mantissa = word & 0x7fffff;
  if (exponent === 0xff) return sign | 0x7c00 | (mantissa === 0 ? 0 : 0x200);
  const unbiased = exponent - 112;
  if (unbiased >= 31) return sign | 0x7c00;
  if (unbiased <= 0) {
    if (unbiased < -10) return sign;
    return sign | roundShift(mantissa | 0x800000, 14 - unbiased);
  }
  return sign | ((unbiased << 10) + roundShift(mantissa, 13));
}

/** `value >> shift`, rounded to nearest even. A carry rolls into the exponent (IEEE 754). */
function roundShift(value: number, shift: number): number {
  const kept = value >>> shift;
  const rest = value & ((1 << shift) - 1);
  const half = 1 << (shift - 1);
  return rest > half || (rest === half && (kept & 1) === 1) ? kept + 1 : kept;
}

/** Exact. By bits: the alternative, a power of two for each value, costs 10 times as much. */
export function f32FromF16(half: number): number {
  const exponent = (half >>> 10) & 31;
  const mantissa = half & 0x3ff;
  if (exponent === 0) return (half & 0x8000 ? -1 : 1) * mantissa * 2 ** -24;
  const widened = exponent === 31 ? 255 : exponent + 112;
  bits[0] = ((half & 0x8000) << 16) | (widened << 23) | (mantissa << 13);
  return float[0] as number;
}

/** Widens 16-bit floats into `out`. Lengths must match. */
export function widen(out: Float32Array, source: Uint16Array, dtype: "f16" | "bf16"): void {
  const convert = dtype === "f16" ? f32FromF16 : f32FromBf16;
  for (let i = 0; i < source.length; i++) out[i] = convert(source[i] as number);
}

/** Narrows f32 into `out`, rounding to nearest even. Lengths must match. */
export function narrow(out: Uint16Array, source: Float32Array, dtype: "f16" | "bf16"): void {
  const convert = dtype === "f16" ? f16FromF32 : bf16FromF32;
  for (let i = 0; i < source.length; i++) out[i] = convert(source[i] as number);
}

/** The same memory as the bits of its floats. */
export function bitsOf(floats: Float32Array): Int32Array {
  return new Int32Array(floats.buffer, floats.byteOffset, floats.length);
}

/** The same memory as the floats of its bits. */
export function floatsOf(bits: Int32Array): Float32Array {
  return new Float32Array(bits.buffer, bits.byteOffset, bits.length);
}
