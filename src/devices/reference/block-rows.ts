/**
 * Rows of the q8 format. Activations are quantised in groups of 32 columns as i8 is in 128 (the
 * last group may be shorter). Matrices have the blocks of a file, or their floats as Q8_0: the
 * scale is the smallest f16 number that is at least max |w| / 127.
 *
 *   y = sum over groups of  (sum of numbers * x) * (scale * scale_x) + min * (scale_x * sum of x)
 */
import { absMaxOf, at, type BlockType, blocksBytes, f16FromF32, f32FromF16 } from "#tensor";
import { type BlockRow, decodeBlocks, SCALE_COLUMNS } from "./blocks.ts";
import { roundHalfEven } from "./quantize.ts";

/** Columns that share a scale of activations and of Q8_0. */
const GROUP_COLUMNS = 32;

export class BlockRows {
  readonly #columns: number;
  readonly #all: BlockRow;

  private constructor(columns: number, all: BlockRow) {
    this.#columns = columns;
    this.#all = all;
  }

  /** Zero-filled. */
  static allocate(rows: number, columns: number): BlockRows {
    const scales = rows * scalesOf(columns);
    return new BlockRows(columns, {
      numbers: new Int8Array(rows * columns),
      scales: new Float32Array(scales),
      mins: new Float32Array(scales),
    });
  }

  get bytes(): number {
    const { numbers, scales, mins } = this.#all;
    return numbers.byteLength + scales.byteLength + mins.byteLength;
  }

  /** Rows `start` up to `end`, the same memory. */
  slice(start: number, end: number): BlockRows {
    return new BlockRows(this.#columns, this.#part(start, end));
  }

  /** Quantises `values` as row `row`: an activation, or with `f16Scales` a row of a matrix. */
  store(row: number, values: Float32Array, f16Scales: boolean): void {
    const { numbers, scales, mins } = this.#part(row, row + 1);
    mins.fill(0);
    for (let start = 0; start < this.#columns; start += GROUP_COLUMNS) {
      const group = values.subarray(start, start + GROUP_COLUMNS);
      const exact = Math.fround(absMaxOf(group) / 127);
      const scale = f16Scales ? f16AtLeast(exact) : exact;
      const first = start / SCALE_COLUMNS;
      scales.fill(scale, first, first + GROUP_COLUMNS / SCALE_COLUMNS);
      for (let i = 0; i < group.length; i++) {
        const quotient = scale === 0 ? 0 : Math.fround(at(group, i) / scale);
        numbers[start + i] = Math.min(Math.max(roundHalfEven(quotient), -127), 127);
      }
    }
  }

  /** Stores the blocks of a file as all rows from `row` on; returns how many rows. */
  storeBlocks(row: number, type: BlockType, blocks: Uint8Array): number {
    const rowBytes = blocksBytes(type, 1, this.#columns) ?? blocks.length;
    const rows = Math.floor(blocks.length / rowBytes);
    for (let i = 0; i < rows; i++) {
      decodeBlocks(type, blocks, i * rowBytes, this.#part(row + i, row + i + 1));
    }
    return rows;
  }

  /** Row `row` as f32 numbers. */
  load(row: number): Float32Array {
    const { numbers, scales, mins } = this.#part(row, row + 1);
    return Float32Array.from(numbers, (number, column) => {
      const index = Math.floor(column / SCALE_COLUMNS);
      return at(scales, index) * number + at(mins, index);
    });
  }

  /** Sum over columns of an activation's row times that row of a matrix. */
  dot(row: number, matrix: BlockRows, matrixRow: number): number {
    const x = this.#part(row, row + 1);
    const w = matrix.#part(matrixRow, matrixRow + 1);
    let sum = 0;
    for (let index = 0; index < x.scales.length; index++) {
      const start = index * SCALE_COLUMNS;
      const end = Math.min(start + SCALE_COLUMNS, this.#columns);
      let products = 0;
      let numbers = 0;
      for (let column = start; column < end; column++) {
        const value = at(x.numbers, column);
        products += value * at(w.numbers, column);
        numbers += value;
      }
      const scaleX = at(x.scales, index);
      sum += products * at(w.scales, index) * scaleX + at(w.mins, index) * scaleX * numbers;
    }
    return sum;
  }

  #part(start: number, end: number): BlockRow {
    const { numbers, scales, mins } = this.#all;
    const [columns, perRow] = [this.#columns, scalesOf(this.#columns)];
    return {
      numbers: numbers.subarray(start * columns, end * columns),
      scales: scales.subarray(start * perRow, end * perRow),
      mins: mins.subarray(start * perRow, end * perRow),
    };
  }
}

/** Scales of a row: whole groups, so that both halves of the last one have theirs. */
function scalesOf(columns: number): number {
  return (Math.ceil(columns / GROUP_COLUMNS) * GROUP_COLUMNS) / SCALE_COLUMNS;
}

/** The smallest f16 number that is at least `value`, which is not negative. */
function f16AtLeast(value: number): number {
  const half = f16FromF32(value);
  return f32FromF16(f32FromF16(half) < value ? half + 1 : half);
}
