import { elementCount } from "#tensor";
import { leftRepeatOf } from "../../drafter-counts.ts";
import type { JoinRowsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";
import { nonlinearityCode } from "./activate.ts";

const params = new Params(10);

/** Calls the kernel with `JoinRowsParams` (native/cpu/join-rows.cpp). */
export function joinRows({ kernels, pool }: CpuContext, input: JoinRowsInput): void {
  const { count, rightIndices } = input;
  const leftRepeat = leftRepeatOf(input);
  const leftColumns = elementCount(input.left.shape.slice(1));
  const rightColumns = elementCount(input.right.shape.slice(1));
  const rightRows = rightIndices === undefined ? count : 0;
  kernels.join_rows(
    params.fill(
      pool,
      tensorOf(input.out, "f32", count, leftColumns + rightColumns).address,
      tensorOf(input.left, "f32", Math.ceil(count / leftRepeat), leftColumns).address,
      tensorOf(input.right, "f32", rightRows, rightColumns).address,
      rightIndices === undefined ? null : vectorOf(rightIndices, "i32", count),
      count,
      leftColumns,
      rightColumns,
      leftRepeat,
      nonlinearityCode(input.rightKind),
    ),
  );
}
