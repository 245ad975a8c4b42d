import { assert } from "#base";
import type { DeviceTensor } from "../../device.ts";
import type { RopeKvWriteInput } from "../../ops.ts";
import type { CudaContext } from "../context.ts";
import { tensorOf, vectorOf } from "../handles.ts";
import { checkedHeadDim } from "../head-dim.ts";
import { KernelParams } from "../kernel-params.ts";
import { KV_LAYER, kvCacheOf } from "../kv-cache.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer"] as const),
  ...KV_LAYER,
  ...(["pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["i32", "i32", "i32", "f32"] as const),
]);

/** Warps of a block, one per head: `kWarps` of native/cuda/rope-kv-write.cu. */
const headsOfBlock = 8;

/** Fields of `RopeKvWriteParams` in native/cuda/rope-kv-write.cu. */
export function ropeKvWrite({ kernels, launcher }: CudaContext, input: RopeKvWriteInput): void {
  const { count, heads, sinkQuery } = input;
  const cache = kvCacheOf(input.cache);
  const { kvHeads } = cache;
  const headDim = checkedHeadDim(cache.headDim);
  const columns = heads * headDim;
  const vector = (handle: DeviceTensor | undefined) =>
    handle === undefined ? null : vectorOf(handle, "f32", headDim);
  const rotary = rotaryDim(input.rope, headDim);
  params.fill(
    tensorOf(input.qkv, "f32", count, columns + 2 * kvHeads * headDim).address,
    tensorOf(input.query, "f32", count, columns).address,
    sinkQuery === undefined ? null : tensorOf(sinkQuery.out, "f32", count, columns).address,
    ...cache.layerParams(input.layer),
    vectorOf(input.positions, "i32", count),
    vectorOf(input.slots, "i32", count),
    input.rope === undefined ? null : tensorOf(input.rope, "f32", 0, rotary).address,
    vector(input.queryNorm),
    vector(input.keyNorm),
    heads,
    rotary,
    sinkQuery?.positionMax ?? 0,
    input.normEpsilon ?? 0,
  );
  const grid = [count, Math.ceil((heads + 2 * kvHeads) / headsOfBlock)] as const;
  launcher.launch(kernels.rope_kv_write, { grid, threads: headsOfBlock * 32 }, params);
}

/** Dimensions that turn; 0 without a table. */
function rotaryDim(rope: DeviceTensor | undefined, headDim: number): number {
  if (rope === undefined) return 0;
  const rotary = rope.shape[1] ?? 0;
  assert(
    rotary % 2 === 0 && rotary <= headDim,
    `Cannot rotate ${rotary} of ${headDim} dimensions: an even number of them wanted`,
  );
  return rotary;
}
