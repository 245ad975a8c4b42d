import { assert } from "#base";
import type { DeviceTensor } from "../../device-data.ts";
import type { RopeKvWriteInput } from "../../ops.ts";
import type { CpuContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { kvPoolOf } from "../kv-pool.ts";
import { Params } from "../params.ts";

const params = new Params(23);

/** Calls the kernel with `RopeKvWriteParams` (native/cpu/rope-kv-write.cpp). */
export function ropeKvWrite({ kernels, pool }: CpuContext, input: RopeKvWriteInput): void {
  const { count, heads, sinkQuery } = input;
  const cache = kvPoolOf(input.cache);
  const { headDim, kvHeads } = cache;
  const vector = (handle: DeviceTensor | undefined) =>
    handle === undefined ? null : vectorOf(handle, "f32", headDim);
  const rotary = rotaryDim(input.rope, headDim);
  kernels.rope_kv_write(
    params.fill(
      pool,
      tensorOf(input.qkv, "f32", count, (heads + 2 * kvHeads) * headDim).address,
      tensorOf(input.query, "f32", count, heads * headDim).address,
      heads,
      ...cache.layerParams(input),
      vectorOf(input.positions, "i32", count),
      vectorOf(input.slots, "i32", count),
      input.rope === undefined ? null : tensorOf(input.rope, "f32", 0, rotary).address,
      rotary,
      vector(input.queryNorm),
      vector(input.keyNorm),
      input.normEpsilon ?? 0,
      sinkQuery === undefined
        ? null
        : tensorOf(sinkQuery.out, "f32", count, heads * headDim).address,
      sinkQuery?.positionMax ?? 0,
      count,
    ),
  );
}

/** Rotated dimensions; 0 without a table. */
function rotaryDim(rope: DeviceTensor | undefined, headDim: number): number {
  if (rope === undefined) return 0;
  const rotary = rope.shape[1] ?? 0;
  assert(
    rotary % 2 === 0 && rotary <= headDim,
    `Cannot rotate ${rotary} of ${headDim} dimensions: an even number of them wanted`,
  );
  return rotary;
}
