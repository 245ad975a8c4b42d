import type { MoveTokensInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { kvPoolOf } from "../kv-pool.ts";
import { Params } from "../params.ts";

const params = new Params(13);

/** Calls the kernel with `MoveTokensParams` (native/cpu/move-tokens.cpp). */
export function moveTokens({ kernels, pool }: CpuContext, input: MoveTokensInput): void {
  const { count, groups } = input;
  kernels.move_tokens(
    params.fill(
      pool,
      ...kvPoolOf(input.cache).layerParams({ layer: 0 }),
      vectorOf(input.starts, "i32", groups + 1),
      tensorOf(input.moves, "i32", count, 2).address,
      groups,
    ),
  );
}
