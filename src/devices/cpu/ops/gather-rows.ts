import { elementCount } from "#tensor";
import type { GatherRowsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(6);

/** Calls the kernel with `GatherRowsParams` (native/cpu/gather-rows.cpp). */
export function gatherRows({ kernels, pool }: CpuContext, input: GatherRowsInput): void {
  const { count } = input;
  const columns = elementCount(input.x.shape.slice(1));
  kernels.gather_rows(
    params.fill(
      pool,
      tensorOf(input.out, "f32", count, columns).address,
      tensorOf(input.x, "f32", 0, columns).address,
      vectorOf(input.indices, "i32", count),
      count,
      columns,
    ),
  );
}
