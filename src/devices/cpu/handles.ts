/** Handles of tensors, activations and weight matrices on this device: an address and a shape. */
import { assert } from "#base";
import { bytesOf, type DType, elementCount, formatShape, type Shape } from "#tensor";
import type { Activation, DeviceTensor, WeightFormat, WeightMatrix } from "../device-data.ts";

/** Codes of weight formats; the same order as `Format` in native/cpu/params.h. */
export const FORMATS: readonly WeightFormat[] = ["f32", "bf16", "i8", "q8"];

/** Codes of element types; the same order as `Element` in native/cpu/params.h. */
export const ELEMENTS = ["f32", "f16", "bf16", "i8", "fp8"] as const;

export function formatCode(format: WeightFormat): number {
  return FORMATS.indexOf(format);
}

export function elementCode(element: (typeof ELEMENTS)[number]): number {
  return ELEMENTS.indexOf(element);
}

export class CpuTensor implements DeviceTensor {
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
  slice(start: number, end: number): CpuTensor {
    assert(
      start >= 0 && start <= end && end <= this.rows,
      () => `Cannot slice ${formatShape(this.shape)} from ${start} to ${end}`,
    );
    const offset = BigInt(start * this.columns * bytesOf(this.dtype));
    return new CpuTensor(this.dtype, [end - start, ...this.shape.slice(1)], this.address + offset);
  }
}

export class CpuActivation implements Activation {
  readonly format: WeightFormat;
  readonly rows: number;
  readonly columns: number;
  readonly address: bigint;
  /** Distance between rows in bytes (native/cpu/activation.h). */
  readonly rowBytes: number;
  readonly formatCode: number;

  constructor(
    format: WeightFormat,
    rows: number,
    columns: number,
    address: bigint,
    rowBytes: number,
  ) {
    this.format = format;
    this.rows = rows;
    this.columns = columns;
    this.address = address;
    this.rowBytes = rowBytes;
    this.formatCode = formatCode(format);
  }

  /** Rows `start` up to `end`, the same memory. */
  slice(start: number, end: number): CpuActivation {
    assert(
      start >= 0 && start <= end && end <= this.rows,
      () => `Cannot slice ${this.rows} rows from ${start} to ${end}`,
    );
    const address = this.address + BigInt(start * this.rowBytes);
    return new CpuActivation(this.format, end - start, this.columns, address, this.rowBytes);
  }
}

export class CpuMatrix implements WeightMatrix {
  readonly format: WeightFormat;
  readonly rows: number;
  readonly columns: number;
  readonly bytes: number;
  readonly address: bigint;
  readonly formatCode: number;

  constructor(format: WeightFormat, rows: number, columns: number, bytes: number, address: bigint) {
    this.format = format;
    this.rows = rows;
    this.columns = columns;
    this.bytes = bytes;
    this.address = address;
    this.formatCode = formatCode(format);
  }
}

const foreign = "Cannot use another device's memory on cpu";

/** Whether `wanted` is a valid count: kernels use counts unchecked, -1 and 0.5 included. */
function holds(there: number, wanted: number): boolean {
  return Number.isInteger(wanted) && wanted >= 0 && there >= wanted;
}

/** The tensor behind a handle, with at least `rows` rows of `columns` elements of `dtype`. */
export function tensorOf(
  handle: DeviceTensor,
  dtype: DType,
  rows: number,
  columns: number,
): CpuTensor {
  assert(handle instanceof CpuTensor, foreign);
  assert(
    handle.dtype === dtype && holds(handle.rows, rows) && handle.columns === columns,
    () =>
      `Cannot use ${handle.dtype} ${formatShape(handle.shape)}: ` +
      `${dtype} [${rows}, ${columns}] wanted`,
  );
  return handle;
}

/** The address of a tensor of at least `count` elements of `dtype`, whatever its shape. */
export function vectorOf(handle: DeviceTensor, dtype: DType, count: number): bigint {
  assert(handle instanceof CpuTensor, foreign);
  assert(
    handle.dtype === dtype && holds(handle.rows * handle.columns, count),
    () =>
      `Cannot use ${handle.dtype} ${formatShape(handle.shape)}: ` +
      `${count} elements of ${dtype} wanted`,
  );
  return handle.address;
}

/** The activation behind a handle, with at least `rows` rows of `columns`. */
export function activationOf(handle: Activation, rows: number, columns: number): CpuActivation {
  assert(handle instanceof CpuActivation, foreign);
  assert(
    holds(handle.rows, rows) && handle.columns === columns,
    () =>
      `Cannot use an activation [${handle.rows}, ${handle.columns}]: [${rows}, ${columns}] wanted`,
  );
  return handle;
}

/** The matrix behind a handle. */
export function matrixOf(handle: WeightMatrix): CpuMatrix {
  assert(handle instanceof CpuMatrix, foreign);
  return handle;
}
