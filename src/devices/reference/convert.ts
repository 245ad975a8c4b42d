import type { ConvertInput } from "../ops.ts";
import { f32Rows, rowSink } from "./host-tensor.ts";

/** out = x, rounded to the format of `out`. */
export function convert(input: ConvertInput): void {
  const x = f32Rows(input.x);
  const out = rowSink(input.out);
  for (let t = 0; t < input.count; t++) out.store(t, x.row(t));
}
