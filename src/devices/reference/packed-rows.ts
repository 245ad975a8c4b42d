/**
 * Rows in a weight format: `WeightMatrix` and `Activation` on this device, and the definition of
 * the formats.
 *
 *   f32    as they are
 *   bf16   rounded to nearest even
 *   i8     `quantize.ts`
 */
import { assert } from "#base";
import { bf16FromF32, dotFrom, dotInt8From, f32FromBf16 } from "#tensor";
import type { Activation, WeightFormat, WeightMatrix } from "../device-data.ts";
import { groupsOf, quantGroupColumns, quantizeRow } from "./quantize.ts";

/** bf16 is stored as f32 numbers: simple, and twice the bytes. */
type Storage =
  | { readonly kind: "float"; readonly values: Float32Array }
  | { readonly kind: "i8"; readonly values: Int8Array; readonly scales: Float32Array };

export class PackedRows implements WeightMatrix, Activation {
  readonly format: WeightFormat;
  readonly rows: number;
  readonly columns: number;
  readonly #storage: Storage;

  private constructor(format: WeightFormat, rows: number, columns: number, storage: Storage) {
    this.format = format;
    this.rows = rows;
    this.columns = columns;
    this.#storage = storage;
  }

  /** Zero-filled. */
  static allocate(format: WeightFormat, rows: number, columns: number): PackedRows {
    const storage: Storage =
      format === "i8"
        ? {
            kind: "i8",
            values: new Int8Array(rows * columns),
            scales: new Float32Array(rows * groupsOf(columns)),
          }
        : { kind: "float", values: new Float32Array(rows * columns) };
    return new PackedRows(format, rows, columns, storage);
  }

  /** Bytes held. */
  get bytes(): number {
    const scales = this.#storage.kind === "i8" ? this.#storage.scales.byteLength : 0;
    return this.#storage.values.byteLength + scales;
  }

  /** Rows `start` up to `end`, the same memory. */
  slice(start: number, end: number): PackedRows {
    assert(
      start >= 0 && end <= this.rows,
      `Cannot slice ${this.rows} rows from ${start} to ${end}`,
    );
    const storage: Storage =
      this.#storage.kind === "i8"
        ? {
            kind: "i8",
            values: this.#storage.values.subarray(start * this.columns, end * this.columns),
            scales: this.#storage.scales.subarray(
              start * groupsOf(this.columns),
              end * groupsOf(this.columns),
            ),
          }
        : {
            kind: "float",
            values: this.#storage.values.subarray(start * this.columns, end * this.columns),
          };
    return new PackedRows(this.format, end - start, this.columns, storage);
  }

  /** Stores `values` [columns], rounded to the format, as row `row`. */
  store(row: number, values: Float32Array): void {
    assert(
      row < this.rows && values.length === this.columns,
      `Cannot store ${values.length} values as row ${row} of [${this.rows}, ${this.columns}]`,
    );
    const start = row * this.columns;
    if (this.#storage.kind === "i8") {
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

  /** Row `row` as f32 numbers. The copy belongs to the caller. */
  load(row: number): Float32Array {
    const start = row * this.columns;
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

function roundToBf16(value: number): number {
  return f32FromBf16(bf16FromF32(value));
}

/** The rows behind a handle of this device. */
export function packedRows(handle: Activation | WeightMatrix): PackedRows {
  assert(handle instanceof PackedRows, "Cannot use another device's matrix on reference");
  return handle;
}
