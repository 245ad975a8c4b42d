import type { SpreadRowsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(5);

/** Calls the kernel with `SpreadRowsParams` (native/cpu/spread-rows.cpp). */
export function spreadRows({ kernels }: CpuContext, input: SpreadRowsInput): void {
  const { count } = input;
  const columns = input.out.shape[1] ?? 1;
  kernels.spread_rows(
    params.fill(
      tensorOf(input.out, "i32", count, columns).address,
      vectorOf(input.starts, "i32", count + 1),
      vectorOf(input.values, "i32", 0),
      count,
      columns,
    ),
  );
}
