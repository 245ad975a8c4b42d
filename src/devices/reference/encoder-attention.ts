import { at } from "#tensor";
import type { EncoderAttentionInput } from "../ops.ts";
import { attend, type Seen } from "./attend.ts";
import { f32Rows, i32, rowSink } from "./host-tensor.ts";

/** Every token attends to every token of its own sequence, itself and later ones included. */
export function encoderAttention(input: EncoderAttentionInput): void {
  const { heads, headDim } = input;
  const qkv = f32Rows(input.qkv, 3 * heads * headDim);
  const out = rowSink(input.out);
  const starts = i32(input.starts);
  /** [D]: part 0 is the query, 1 the key, 2 the value. */
  const vector = (row: number, part: number, head: number): Float32Array => {
    const start = (part * heads + head) * headDim;
    return qkv.row(row).subarray(start, start + headDim);
  };

  for (let sequence = 0; sequence < input.sequences; sequence++) {
    const rows = range(at(starts, sequence), at(starts, sequence + 1));
    const seen = range(0, heads).map(
      (head): Seen => ({
        keys: rows.map((row) => vector(row, 1, head)),
        values: rows.map((row) => vector(row, 2, head)),
      }),
    );
    for (const row of rows) {
      const outRow = new Float32Array(heads * headDim);
      seen.forEach((headSeen, head) => {
        outRow.set(attend(vector(row, 0, head), headSeen, { scale: input.scale }), head * headDim);
      });
      out.store(row, outRow);
    }
  }
}

function range(start: number, end: number): number[] {
  return Array.from({ length: end - start }, (_, i) => start + i);
}
