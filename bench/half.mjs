/** Numbers as half precision. */

const wide = new Float32Array(1);
const wideBits = new Uint32Array(wide.buffer);

/** Round to nearest; numbers below the smallest normal one become denormal. */
export function f16(value) {
  wide[0] = value;
  const bits = wideBits[0];
  const sign = (bits >>> 16) & 0x8000;
  const exponent = ((bits >>> 23) & 255) - 112;
  if (exponent <= 0) return sign | Math.round(Math.abs(value) * 2 ** 24);
  return sign | ((((exponent << 23) | (bits & 0x7fffff)) + 0x1000) >>> 13);
}
