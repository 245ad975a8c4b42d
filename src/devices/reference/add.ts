import { addScaled } from "#tensor";
import type { AddInput } from "../ops.ts";
import { activateRow } from "./activate.ts";
import { f32Rows } from "./host-tensor.ts";

/** x = x + delta, or x + act(delta). */
export function add(input: AddInput): void {
  const x = f32Rows(input.x);
  const delta = f32Rows(input.delta);
  const { kind } = input;
  for (let t = 0; t < input.count; t++) {
    const added = delta.row(t);
    addScaled(x.row(t), kind === undefined ? added : activateRow(kind, added, false), 1);
  }
}
