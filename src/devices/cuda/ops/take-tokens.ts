import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { vectorOf } from "#devices/cuda/memory";
import type { TakeTokensInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams(["pointer", "pointer", "pointer", "i32"]);

/** Calls the kernel with `TakeTokensParams` (native/cuda/take-tokens.cu). */
export function takeTokens({ kernels, launcher }: CudaContext, input: TakeTokensInput): void {
  const { count } = input;
  params.fill(
    vectorOf(input.ids, "i32", count),
    vectorOf(input.sampled, "i32", 0),
    vectorOf(input.sources, "i32", count),
    count,
  );
  const grid = [Math.ceil(count / ROW_THREADS)] as const;
  launcher.launch(kernels.take_tokens, { grid, threads: ROW_THREADS }, params);
}
