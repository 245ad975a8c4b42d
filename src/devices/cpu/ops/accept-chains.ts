import type { AcceptChainsInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { vectorOf } from "../handles.ts";
import { Params } from "../params.ts";

const params = new Params(9);

/** Calls the kernel with `AcceptChainsParams` (native/cpu/accept-chains.cpp). */
export function acceptChains({ kernels }: CpuContext, input: AcceptChainsInput): void {
  const { count, placeRows } = input;
  kernels.accept_chains(
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
    ),
  );
}
