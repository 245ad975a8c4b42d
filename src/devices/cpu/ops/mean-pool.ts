import { elementCount } from "#tensor";
import type { MeanPoolInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(7);

/** Calls the kernel with `MeanPoolParams` (native/cpu/mean-pool.cpp). */
export function meanPool({ kernels, pool }: CpuContext, input: MeanPoolInput): void {
  const { sequences } = input;
  const columns = elementCount(input.x.shape.slice(1));
  kernels.mean_pool(
    params.fill(
      pool,
      tensorOf(input.out, "f32", sequences, columns).address,
      tensorOf(input.x, "f32", 0, columns).address,
      vectorOf(input.starts, "i32", sequences + 1),
      sequences,
      columns,
      input.normalize ? 1 : 0,
    ),
  );
}
