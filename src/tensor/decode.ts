import type { DType } from "./dtype.ts";
import { widen } from "./float-bits.ts";

/**
 * Little-endian floats of a file as f32. The result is a copy, unless `bytes` hold aligned f32:
 * then it is a view of them. A trailing partial element is ignored.
 */
export function decodeFloats(
  bytes: Uint8Array,
  dtype: Extract<DType, "f32" | "f16" | "bf16">,
): Float32Array {
  const size = dtype === "f32" ? 4 : 2;
  const aligned = bytes.byteOffset % size === 0 ? bytes : bytes.slice();
  const count = Math.floor(aligned.byteLength / size);
  if (dtype === "f32") return new Float32Array(aligned.buffer, aligned.byteOffset, count);
  const out = new Float32Array(count);
  widen(out, new Uint16Array(aligned.buffer, aligned.byteOffset, count), dtype);
  return out;
}
