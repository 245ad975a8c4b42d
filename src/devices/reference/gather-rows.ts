import { at } from "#tensor";
import type { GatherRowsInput } from "../ops.ts";
import { f32Rows, i32 } from "./host-tensor.ts";

/** out[r] = x[indices[r]]. */
export function gatherRows(input: GatherRowsInput): void {
  const out = f32Rows(input.out);
  const x = f32Rows(input.x);
  const indices = i32(input.indices);
  for (let r = 0; r < input.count; r++) out.store(r, x.row(at(indices, r)));
}
