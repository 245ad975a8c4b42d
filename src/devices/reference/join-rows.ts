import { at } from "#tensor";
import { leftRepeatOf } from "../drafter-counts.ts";
import type { JoinRowsInput } from "../ops.ts";
import { activateRow } from "./activate.ts";
import { f32Rows, i32 } from "./host-tensor.ts";

/** out[r] = left[floor(r / leftRepeat)], then right[rightIndices[r]] or act of it. */
export function joinRows(input: JoinRowsInput): void {
  const { rightIndices, rightKind } = input;
  const leftRepeat = leftRepeatOf(input);
  const out = f32Rows(input.out);
  const left = f32Rows(input.left);
  const right = f32Rows(input.right);
  for (let r = 0; r < input.count; r++) {
    const first = left.row(Math.floor(r / leftRepeat));
    const second = right.row(rightIndices === undefined ? r : at(i32(rightIndices), r));
    const row = out.row(r);
    row.set(first);
    const isPlain = rightKind === undefined;
    row.set(isPlain ? second : activateRow(rightKind, second, false), first.length);
  }
}
