import type { AcceptTreesInput } from "../../ops.ts";
import { checkTreeColumns } from "../../tree-counts.ts";
import type { CpuContext } from "../context.ts";
import { vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(11);

/** Calls the kernel with `AcceptTreesParams` (native/cpu/accept-trees.cpp). */
export function acceptTrees({ kernels }: CpuContext, input: AcceptTreesInput): void {
  const { count, columns } = input;
  checkTreeColumns(input);
  kernels.accept_trees(
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
    ),
  );
}
