import { assert } from "#base";
import { type DType, elementCount, formatShape, type Shape } from "#tensor";
import type { Activation, DeviceTensor } from "../device-data.ts";
import { PackedRows } from "./packed-rows.ts";

export type HostData = Float32Array | Int32Array | Uint32Array;

/** A tensor in a typed array. */
export class HostTensor implements DeviceTensor {
  readonly dtype: DType;
  readonly shape: Shape;
  readonly data: HostData;

  constructor(shape: Shape, data: HostData) {
    assert(
      data.length === elementCount(shape),
      `Cannot view ${data.length} elements as ${formatShape(shape)}`,
    );
    this.dtype = data instanceof Float32Array ? "f32" : data instanceof Int32Array ? "i32" : "u32";
    this.shape = shape;
    this.data = data;
  }

  /** Zero-filled. Of the element types, ops support f32, i32 and u32. */
  static allocate(dtype: DType, shape: Shape): HostTensor {
    assert(
      dtype === "f32" || dtype === "i32" || dtype === "u32",
      `Cannot allocate a tensor: f32, i32 or u32 wanted, current value is ${dtype}`,
    );
    const count = elementCount(shape);
    if (dtype === "f32") return new HostTensor(shape, new Float32Array(count));
    return new HostTensor(shape, dtype === "i32" ? new Int32Array(count) : new Uint32Array(count));
  }

  /** Elements of one leading row. */
  get columns(): number {
    return elementCount(this.shape.slice(1));
  }

  /** Leading rows `start` up to `end`, the same memory. */
  slice(start: number, end: number): HostTensor {
    assert(
      start >= 0 && start <= end && end <= (this.shape[0] ?? 1),
      `Cannot slice ${formatShape(this.shape)} from ${start} to ${end}`,
    );
    const data = this.data.subarray(start * this.columns, end * this.columns);
    return new HostTensor([end - start, ...this.shape.slice(1)], data);
  }
}

/** A tensor's f32 elements seen as rows of `columns`. Rows share memory with the tensor. */
export class FloatRows {
  readonly #data: Float32Array;
  readonly #columns: number;

  constructor(data: Float32Array, columns: number) {
    this.#data = data;
    this.#columns = columns;
  }

  row(index: number): Float32Array {
    const start = index * this.#columns;
    assert(start + this.#columns <= this.#data.length, `Cannot reach row ${index}: out of bounds`);
    return this.#data.subarray(start, start + this.#columns);
  }

  /** Overwrites a row. */
  store(index: number, values: Float32Array): void {
    this.row(index).set(values);
  }
}

/** Output rows of an op that feeds a `linear`. */
export interface RowSink {
  store(row: number, values: Float32Array): void;
}

function hostTensor(handle: DeviceTensor): HostTensor {
  assert(handle instanceof HostTensor, "Cannot use another device's tensor on reference");
  return handle;
}

/** All elements of an f32 tensor. */
export function f32(handle: DeviceTensor): Float32Array {
  const { data } = hostTensor(handle);
  assert(data instanceof Float32Array, `Cannot read floats of an ${handle.dtype} tensor`);
  return data;
}

/** All elements of an i32 tensor. */
export function i32(handle: DeviceTensor): Int32Array {
  const { data } = hostTensor(handle);
  assert(data instanceof Int32Array, `Cannot read integers of an ${handle.dtype} tensor`);
  return data;
}

/** All elements of a u32 tensor. */
export function u32(handle: DeviceTensor): Uint32Array {
  const { data } = hostTensor(handle);
  assert(data instanceof Uint32Array, `Cannot read words of an ${handle.dtype} tensor`);
  return data;
}

/** An f32 tensor as rows; `columns` defaults to its own. */
export function f32Rows(handle: DeviceTensor, columns = hostTensor(handle).columns): FloatRows {
  return new FloatRows(f32(handle), columns);
}

/** Rows to write, rounded to the target's format when stored. */
export function rowSink(handle: Activation | DeviceTensor): RowSink {
  return handle instanceof PackedRows ? handle : f32Rows(asTensor(handle));
}

function asTensor(handle: Activation | DeviceTensor): DeviceTensor {
  assert("dtype" in handle, "Cannot use another device's activation on reference");
  return handle;
}
