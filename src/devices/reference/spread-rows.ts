import { at } from "#tensor";
import type { SpreadRowsInput } from "../ops.ts";
import { i32 } from "./host-tensor.ts";

/** The first elements of out[s] become values[starts[s]] to values[starts[s + 1] - 1]. */
export function spreadRows(input: SpreadRowsInput): void {
  const out = i32(input.out);
  const starts = i32(input.starts);
  const values = i32(input.values);
  const columns = input.out.shape[1] ?? 1;
  for (let s = 0; s < input.count; s++) {
    out.set(values.subarray(at(starts, s), at(starts, s + 1)), s * columns);
  }
}
