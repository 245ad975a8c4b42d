import { assert } from "#base";
import { addScaled, at } from "#tensor";
import type { DeviceTensor, WeightMatrix } from "../device-data.ts";
import type { EmbedInput } from "../ops.ts";
import { f32Rows, i32 } from "./host-tensor.ts";
import { PackedRows } from "./packed-rows.ts";

/** out[t] = scale * table[ids[t] + offset], or added to the current out[t]. */
export function embed(input: EmbedInput): void {
  const out = f32Rows(input.out);
  const ids = i32(input.ids);
  const lookUp = rowReader(input.table);
  for (let t = 0; t < input.count; t++) {
    const outRow = out.row(t);
    if (input.accumulate !== true) outRow.fill(0);
    addScaled(outRow, lookUp(at(ids, t) + (input.offset ?? 0)), input.scale ?? 1);
  }
}

function rowReader(table: WeightMatrix | DeviceTensor): (row: number) => Float32Array {
  if (table instanceof PackedRows) return (row) => table.load(row);
  assert("dtype" in table, "Cannot use another device's matrix on reference");
  const rows = f32Rows(table);
  return (row) => rows.row(row);
}
