import { KernelParams, ROW_THREADS } from "#devices/cuda/kernels";
import { vectorOf } from "#devices/cuda/memory";
import type { AcceptTreesInput } from "../../ops.ts";
import { checkTreeColumns } from "../../tree-counts.ts";
import type { CudaContext } from "./context.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["pointer", "pointer", "i32", "i32"] as const),
]);

const warpThreads = 32;

/** Calls the kernel with `AcceptTreesParams` (native/cuda/accept-trees.cu). */
export function acceptTrees({ kernels, launcher }: CudaContext, input: AcceptTreesInput): void {
  const { count, columns } = input;
  checkTreeColumns(input);
  params.fill(
    vectorOf(input.ids, "i32", 0),
    vectorOf(input.sampled, "i32", 0),
    vectorOf(input.firstIds, "i32", count),
    vectorOf(input.firstSampled, "i32", count),
    vectorOf(input.drafted, "i32", count),
    vectorOf(input.parents, "i32", count * columns),
    vectorOf(input.roots, "i32", count),
    vectorOf(input.nodes, "i32", count),
    vectorOf(input.depths, "i32", count),
    count,
    columns,
  );
  const grid = [Math.ceil((count * warpThreads) / ROW_THREADS)] as const;
  launcher.launch(kernels.accept_trees, { grid, threads: ROW_THREADS }, params);
}
