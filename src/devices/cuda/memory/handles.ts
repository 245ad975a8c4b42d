/** Handles of tensors, activations and weight matrices on this device: an address and a shape. */
import { assert } from "#base";
import { bytesOf, type DType, elementCount, formatShape, type Shape } from "#tensor";
import type { Activation, DeviceTensor, WeightFormat, WeightMatrix } from "../../device-data.ts";
import { groupsOf } from "../../reference/quantize.ts";

/** Codes of weight formats; the same order as `Format` in native/cuda/params.h. */
export const FORMATS: readonly WeightFormat[] = ["f32", "bf16", "i8"];

/** Codes of element types; the same order as `Element` in native/cuda/params.h. */
const ELEMENTS = ["f32", "f16", "bf16", "i8", "fp8"] as const;

/** An element of a file or of a KV pool. */
export type ElementName = (typeof ELEMENTS)[number];

/** The kernels' code of `element`. */
export function elementCode(element: ElementName): number {
  return ELEMENTS.indexOf(element);
}

/** Rows begin at multiples of this: a thread loads 16 bytes at once. */
const rowAlignment = 16;

function padded(bytes: number): number {
  return Math.ceil(bytes / rowAlignment) * rowAlignment;
}

/** Offset of the scales in an i8 row. */
export function scaleOffset(columns: number): number {
  return padded(columns);
}

/** Bytes from one row to the next: `packedRowBytes` of native/cuda/packed-rows.h. */
export function rowBytes(format: WeightFormat, columns: number): number {
  if (format === "f32") return columns * 4;
  if (format === "bf16") return padded(columns * 2);
  return scaleOffset(columns) + padded(groupsOf(columns) * 4);
}

/** A tensor in device memory. */
export class CudaTensor implements DeviceTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly address: bigint;
  /** Leading rows; 1 for a scalar. */
  readonly rows: number;
  /** Elements of one leading row. */
  readonly columns: number;

  constructor(dtype: DType, shape: Shape, address: bigint) {
    this.dtype = dtype;
    this.shape = shape;
    this.address = address;
    this.rows = shape[0] ?? 1;
    this.columns = elementCount(shape.slice(1));
  }

  get bytes(): number {
    return this.rows * this.columns * bytesOf(this.dtype);
  }

  /** Leading rows `start` up to `end`, the same memory. */
  slice(start: number, end: number): CudaTensor {
    assert(
      start >= 0 && start <= end && end <= this.rows,
      () => `Cannot slice ${formatShape(this.shape)} from ${start} to ${end}`,
    );
    const offset = BigInt(start * this.columns * bytesOf(this.dtype));
    return new CudaTensor(this.dtype, [end - start, ...this.shape.slice(1)], this.address + offset);
  }
}

/** Rows in a weight format: the common part of activations and matrices. */
abstract class CudaRows {
  readonly format: WeightFormat;
  readonly rows: number;
  readonly columns: number;
  readonly address: bigint;
  /** Bytes from one row to the next. */
  readonly rowBytes: number;
  readonly formatCode: number;

  constructor(format: WeightFormat, rows: number, columns: number, address: bigint) {
    this.format = format;
    this.rows = rows;
    this.columns = columns;
    this.address = address;
    this.rowBytes = rowBytes(format, columns);
    this.formatCode = FORMATS.indexOf(format);
  }

  /** Bytes of all rows. */
  get bytes(): number {
    return this.rows * this.rowBytes;
  }

  /** The fields of `PackedRows` in native/cuda/packed-rows.h. */
  get params(): readonly [bigint, number, number] {
    return [this.address, this.formatCode, this.columns];
  }
}

/** Rows that a linear multiplies. */
export class CudaActivation extends CudaRows implements Activation {
  /** Rows `start` up to `end`, the same memory. */
  slice(start: number, end: number): CudaActivation {
    assert(
      start >= 0 && start <= end && end <= this.rows,
      () => `Cannot slice ${this.rows} rows from ${start} to ${end}`,
    );
    const address = this.address + BigInt(start * this.rowBytes);
    return new CudaActivation(this.format, end - start, this.columns, address);
  }
}

/** Weights, row-major: outputs [N] by inputs [K]. */
export class CudaMatrix extends CudaRows implements WeightMatrix {}

const foreign = "Cannot use another device's memory on cuda";

/** The tensor behind a handle, with at least `rows` rows of `columns` elements of `dtype`. */
export function tensorOf(
  handle: DeviceTensor,
  dtype: DType,
  rows: number,
  columns: number,
): CudaTensor {
  assert(handle instanceof CudaTensor, foreign);
  assert(
    handle.dtype === dtype && handle.rows >= rows && handle.columns === columns,
    () =>
      `Cannot use ${handle.dtype} ${formatShape(handle.shape)}: ` +
      `${dtype} [${rows}, ${columns}] wanted`,
  );
  return handle;
}

/** The address of a tensor of at least `count` elements of `dtype`, whatever its shape. */
export function vectorOf(handle: DeviceTensor, dtype: DType, count: number): bigint {
  assert(handle instanceof CudaTensor, foreign);
  assert(
    handle.dtype === dtype && handle.rows * handle.columns >= count,
    () =>
      `Cannot use ${handle.dtype} ${formatShape(handle.shape)}: ` +
      `${count} elements of ${dtype} wanted`,
  );
  return handle.address;
}

/** The tensor behind a handle, whatever its type and shape. */
export function anyTensor(handle: DeviceTensor): CudaTensor {
  assert(handle instanceof CudaTensor, foreign);
  return handle;
}

/** The activation behind a handle, with at least `rows` rows of `columns`. */
export function activationOf(handle: Activation, rows: number, columns: number): CudaActivation {
  assert(handle instanceof CudaActivation, foreign);
  assert(
    handle.rows >= rows && handle.columns === columns,
    () =>
      `Cannot use an activation [${handle.rows}, ${handle.columns}]: [${rows}, ${columns}] wanted`,
  );
  return handle;
}

/** The matrix behind a handle. */
export function matrixOf(handle: WeightMatrix): CudaMatrix {
  assert(handle instanceof CudaMatrix, foreign);
  return handle;
}

/** An f32 tensor as the rows of `PackedRows`: f32 rows have no padding. */
export function asPackedRows({ address, columns }: CudaTensor): readonly [bigint, number, number] {
  return [address, FORMATS.indexOf("f32"), columns];
}
