import { KernelParams } from "#devices/cuda/kernels";
import { KV_LAYER, kvPoolOf, tensorOf, vectorOf } from "#devices/cuda/memory";
import type { MoveTokensInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams([...KV_LAYER, "pointer", "pointer"]);

/** Enough for the keys and values of a head of 128 in bf16, 16 bytes each, and the scales. */
const threads = 64;

/** Calls the kernel with `MoveTokensParams` (native/cuda/move-tokens.cu). */
export function moveTokens({ kernels, launcher }: CudaContext, input: MoveTokensInput): void {
  const { count, groups } = input;
  const cache = kvPoolOf(input.cache);
  params.fill(
    ...cache.layerParams({ layer: 0 }),
    vectorOf(input.starts, "i32", groups + 1),
    tensorOf(input.moves, "i32", count, 2).address,
  );
  const grid = [cache.layers * cache.kvHeads, groups] as const;
  launcher.launch(kernels.move_tokens, { grid, threads }, params);
}
