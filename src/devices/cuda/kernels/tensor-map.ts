/** Descriptors of tensors for Hopper's copy engine (CUtensorMap). */
import { assert } from "#base";
import { addressOf, type CudaDriver } from "#devices/cuda/driver";
import type { ParamKind } from "./kernel-params.ts";

/** Numbers of cuda.h. */
const uint16 = 1;
const noInterleave = 0;
const swizzle128 = 3;
const promote256 = 3;
const zerosOutside = 0;

const mapBytes = 128;
const mapAlignment = 64;

/** `TensorMap` of native/cuda/hopper.h, which must be a struct's first field. */
export const TENSOR_MAP: readonly ParamKind[] = new Array(mapBytes / 8).fill("i64");

/** A tensor of 16-bit elements, and the box of one copy, innermost dimension first. */
export interface TensorMapOptions {
  readonly address: bigint;
  /** Elements along each of 5 dimensions. */
  readonly sizes: readonly number[];
  /** From one element to the next along dimensions 1 to 4: bytes, multiples of 16. */
  readonly strides: readonly number[];
  /** Elements along each dimension; 64 of the innermost are a row of 128 bytes. */
  readonly box: readonly number[];
}

/** The fields of `TENSOR_MAP`: 128-byte swizzle in shared memory, zeros outside the tensor. */
export function tensorMapFields(driver: CudaDriver, options: TensorMapOptions): readonly bigint[] {
  const { address, sizes, strides, box } = options;
  assert(
    sizes.length === 5 && strides.length === 4 && box.length === 5,
    `Cannot describe a tensor of ${sizes.length} dimensions: 5 wanted`,
  );
  const memory = new ArrayBuffer(mapBytes + mapAlignment);
  const start = addressOf(memory);
  const skipped = Number(-start & BigInt(mapAlignment - 1));
  driver.run(
    "cuTensorMapEncodeTiled",
    start + BigInt(skipped),
    uint16,
    sizes.length,
    address,
    BigUint64Array.from(sizes, BigInt),
    BigUint64Array.from(strides, BigInt),
    Uint32Array.from(box),
    new Uint32Array(box.length).fill(1),
    noInterleave,
    swizzle128,
    promote256,
    zerosOutside,
  );
  return [...new BigUint64Array(memory, skipped, mapBytes / 8)];
}
