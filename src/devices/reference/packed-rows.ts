/**
 * Rows in a weight format: `WeightMatrix` and `Activation` on this device, and the definition of
 * the formats.
 *
 *   f32    as they are
 *   bf16   rounded to nearest even
 *   i8     `quantize.ts`
 *   q8     `block-rows.ts`
 */
import { assert } from "#base";
import { type BlockType, bf16FromF32, dotFrom, dotInt8From, f32FromBf16 } from "#tensor";
import type { Activation, WeightFormat, WeightMatrix } from "../device-data.ts";
import { BlockRows } from "./block-rows.ts";
import { groupsOf, quantGroupColumns, quantizeRow } from "./quantize.ts";

/** bf16 is stored as f32 numbers: simple, and twice the bytes. */
type Storage =
  | { readonly kind: "float"; readonly values: Float32Array }
  | { readonly kind: "i8"; readonly values: Int8Array; readonly scales: Float32Array }
  | { readonly kind: "q8"; readonly rows: BlockRows };

export class PackedRows implements WeightMatrix, Activation {
  readonly format: WeightFormat;
  readonly rows: number;
  readonly columns: number;
  readonly #storage: Storage;
  /** q8 rounds matrices and activations differently. */
  readonly #isMatrix: boolean;

  private constructor(
    format: WeightFormat,
    rows: number,
    columns: number,
    storage: Storage,
    isMatrix = false,
  ) {
    this.format = format;
    this.rows = rows;
    this.columns = columns;
    this.#storage = storage;
    this.#isMatrix = isMatrix;
  }

  /** The rows of a matrix, zero-filled. */
  static allocateMatrix(format: WeightFormat, rows: number, columns: number): PackedRows {
    return new PackedRows(format, rows, columns, storageOf(format, rows, columns), true);
  }

  /** The rows of an activation, zero-filled. */
  static allocate(format: WeightFormat, rows: number, columns: number): PackedRows {
    return new PackedRows(format, rows, columns, storageOf(format, rows, columns));
  }

  /** Bytes held. */
  get bytes(): number {
    if (this.#storage.kind === "q8") return this.#storage.rows.bytes;
    const scales = this.#storage.kind === "i8" ? this.#storage.scales.byteLength : 0;
    return this.#storage.values.byteLength + scales;
  }

  /** Rows `start` up to `end`, the same memory. */
  slice(start: number, end: number): PackedRows {
    assert(
      start >= 0 && end <= this.rows,
      `Cannot slice ${this.rows} rows from ${start} to ${end}`,
    );
    const storage = this.#sliced(start, end);
    return new PackedRows(this.format, end - start, this.columns, storage);
  }

  #sliced(start: number, end: number): Storage {
    const storage = this.#storage;
    if (storage.kind === "q8") return { kind: "q8", rows: storage.rows.slice(start, end) };
    const [first, last] = [start * this.columns, end * this.columns];
    if (storage.kind === "float") {
      return { kind: "float", values: storage.values.subarray(first, last) };
    }
    const groups = groupsOf(this.columns);
    return {
      kind: "i8",
      values: storage.values.subarray(first, last),
      scales: storage.scales.subarray(start * groups, end * groups),
    };
  }

  /** Stores `values` [columns], rounded to the format, as row `row`. */
  store(row: number, values: Float32Array): void {
    assert(
      row < this.rows && values.length === this.columns,
      `Cannot store ${values.length} values as row ${row} of [${this.rows}, ${this.columns}]`,
    );
    const start = row * this.columns;
    if (this.#storage.kind === "q8") {
      this.#storage.rows.store(row, values, this.#isMatrix);
    } else if (this.#storage.kind === "i8") {
      const groups = groupsOf(this.columns);
      quantizeRow(
        values,
        this.#storage.values.subarray(start, start + this.columns),
        this.#storage.scales.subarray(row * groups, (row + 1) * groups),
      );
    } else {
      const rounded = this.format === "bf16" ? values.map(roundToBf16) : values;
      this.#storage.values.set(rounded, start);
    }
  }

  /** Stores the blocks of a file, in q8, as rows from `row` on; returns how many. */
  storeBlocks(row: number, type: BlockType, blocks: Uint8Array): number {
    assert(this.#storage.kind === "q8", `Cannot store blocks in rows of ${this.format}`);
    return this.#storage.rows.storeBlocks(row, type, blocks);
  }

  /** Row `row` as f32 numbers. The copy belongs to the caller. */
  load(row: number): Float32Array {
    const start = row * this.columns;
    if (this.#storage.kind === "q8") return this.#storage.rows.load(row);
    if (this.#storage.kind === "float") {
      return this.#storage.values.slice(start, start + this.columns);
    }
    const { values, scales } = this.#storage;
    const rowScales = scales.subarray(row * groupsOf(this.columns));
    return Float32Array.from(
      values.subarray(start, start + this.columns),
      (value, column) => value * (rowScales[Math.floor(column / quantGroupColumns)] ?? 0),
    );
  }

  /** Sum over columns of this row times that row of `other`, of the same format and width. */
  dot(row: number, other: PackedRows, otherRow: number): number {
    const a = this.#storage;
    const b = other.#storage;
    if (a.kind === "float" && b.kind === "float") {
      const start = row * this.columns;
      return dotFrom(a.values, start, b.values, otherRow * this.columns, this.columns);
    }
    if (a.kind === "q8" && b.kind === "q8") return b.rows.dot(otherRow, a.rows, row);
    assert(
      a.kind === "i8" && b.kind === "i8",
      `Cannot multiply ${this.format} rows by ${other.format} rows`,
    );
    const groups = groupsOf(this.columns);
    let sum = 0;
    for (let group = 0; group < groups; group++) {
      const start = group * quantGroupColumns;
      const count = Math.min(quantGroupColumns, this.columns - start);
      const aStart = row * this.columns + start;
      const bStart = otherRow * this.columns + start;
      const integers = dotInt8From(a.values, aStart, b.values, bStart, count);
      const scaleA = a.scales[row * groups + group] ?? 0;
      const scaleB = b.scales[otherRow * groups + group] ?? 0;
      sum += integers * scaleA * scaleB;
    }
    return sum;
  }
}

function storageOf(format: WeightFormat, rows: number, columns: number): Storage {
  if (format === "q8") return { kind: "q8", rows: BlockRows.allocate(rows, columns) };
  if (format !== "i8") return { kind: "float", values: new Float32Array(rows * columns) };
  return {
    kind: "i8",
    values: new Int8Array(rows * columns),
    scales: new Float32Array(rows * groupsOf(columns)),
  };
}

function roundToBf16(value: number): number {
  return f32FromBf16(bf16FromF32(value));
}

/** The rows behind a handle of this device. */
export function packedRows(handle: Activation | WeightMatrix): PackedRows {
  assert(handle instanceof PackedRows, "Cannot use another device's matrix on reference");
  return handle;
}
