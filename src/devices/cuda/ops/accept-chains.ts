import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { vectorOf } from "#devices/cuda/memory";
import type { AcceptChainsInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["i32", "i32"] as const),
]);

/** Calls the kernel with `AcceptChainsParams` (native/cuda/accept-chains.cu). */
export function acceptChains({ kernels, launcher }: CudaContext, input: AcceptChainsInput): void {
  const { count, placeRows } = input;
  params.fill(
    vectorOf(input.ids, "i32", 0),
    vectorOf(input.sampled, "i32", 0),
    vectorOf(input.firstIds, "i32", count),
    vectorOf(input.firstSampled, "i32", count),
    vectorOf(input.drafted, "i32", count),
    vectorOf(input.roots, "i32", count),
    vectorOf(input.places, "i32", placeRows * count),
    count,
    placeRows,
  );
  const grid = [Math.ceil(count / ROW_THREADS)] as const;
  launcher.launch(kernels.accept_chains, { grid, threads: ROW_THREADS }, params);
}
