import { at } from "#tensor";
import { reachOf } from "../attention-reach.ts";
import type { EncoderAttentionInput } from "../ops.ts";
import { attend, type Seen } from "./attend.ts";
import { f32Rows, i32, rowSink } from "./host-tensor.ts";

/**
 * Every token attends to the tokens of its own sequence, itself and later ones included; with a
 * reach only to those on either side of it that are no farther away.
 */
export function encoderAttention(input: EncoderAttentionInput): void {
  const { heads, headDim } = input;
  const reach = reachOf(input) || Number.POSITIVE_INFINITY;
  const qkv = f32Rows(input.qkv, 3 * heads * headDim);
  const out = rowSink(input.out);
  const starts = i32(input.starts);
  /** [D]: part 0 is the query, 1 the key, 2 the value. */
  const vector = (row: number, part: number, head: number): Float32Array => {
    const start = (part * heads + head) * headDim;
    return qkv.row(row).subarray(start, start + headDim);
  };

  for (let sequence = 0; sequence < input.sequences; sequence++) {
    const start = at(starts, sequence);
    const end = at(starts, sequence + 1);
    for (const row of range(start, end)) {
      const rows = range(Math.max(start, row - reach), Math.min(end, row + reach + 1));
      const outRow = new Float32Array(heads * headDim);
      for (const head of range(0, heads)) {
        const seen: Seen = {
          keys: rows.map((other) => vector(other, 1, head)),
          values: rows.map((other) => vector(other, 2, head)),
        };
        outRow.set(attend(vector(row, 0, head), seen, { scale: input.scale }), head * headDim);
      }
      out.store(row, outRow);
    }
  }
}

function range(start: number, end: number): number[] {
  return Array.from({ length: end - start }, (_, i) => start + i);
}
