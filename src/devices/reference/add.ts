import { addScaled } from "#tensor";
import type { AddInput } from "../ops.ts";
import { f32Rows } from "./host-tensor.ts";

/** x = x + delta. */
export function add(input: AddInput): void {
  const x = f32Rows(input.x);
  const delta = f32Rows(input.delta);
  for (let t = 0; t < input.count; t++) addScaled(x.row(t), delta.row(t), 1);
}
