/** Element types of files and of device memory. */
export type DType = "f64" | "f32" | "f16" | "bf16" | "i64" | "i32" | "i16" | "i8" | "u8" | "u32";

const BYTES: Readonly<Record<DType, number>> = {
  f64: 8,
  f32: 4,
  f16: 2,
  bf16: 2,
  i64: 8,
  i32: 4,
  i16: 2,
  i8: 1,
  u8: 1,
  u32: 4,
};

/** Size of one element in bytes. */
export function bytesOf(dtype: DType): number {
  return BYTES[dtype];
}
