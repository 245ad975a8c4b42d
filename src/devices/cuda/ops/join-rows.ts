import { KernelParams, ROW_PART, ROW_THREADS } from "#devices/cuda/kernels";
import { tensorOf, vectorOf } from "#devices/cuda/memory";
import { elementCount } from "#tensor";
import { leftRepeatOf } from "../../drafter-counts.ts";
import type { JoinRowsInput } from "../../ops.ts";
import { nonlinearityCode } from "./activate.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer"] as const),
  ...(["i32", "i32", "i32", "i32"] as const),
]);

/** Calls the kernel with `JoinRowsParams` (native/cuda/join-rows.cu). */
export function joinRows({ kernels, launcher }: CudaContext, input: JoinRowsInput): void {
  const { count, rightIndices } = input;
  const leftRepeat = leftRepeatOf(input);
  const leftColumns = elementCount(input.left.shape.slice(1));
  const rightColumns = elementCount(input.right.shape.slice(1));
  const rightRows = rightIndices === undefined ? count : 0;
  params.fill(
    tensorOf(input.out, "f32", count, leftColumns + rightColumns).address,
    tensorOf(input.left, "f32", Math.ceil(count / leftRepeat), leftColumns).address,
    tensorOf(input.right, "f32", rightRows, rightColumns).address,
    rightIndices === undefined ? null : vectorOf(rightIndices, "i32", count),
    leftColumns,
    rightColumns,
    leftRepeat,
    nonlinearityCode(input.rightKind),
  );
  const grid = [count, Math.ceil((leftColumns + rightColumns) / ROW_PART)] as const;
  launcher.launch(kernels.join_rows, { grid, threads: ROW_THREADS }, params);
}
