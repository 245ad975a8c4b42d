import { assert } from "#base";
import { KernelParams } from "#devices/cuda/kernels";
import { KV_LAYER, kvPoolOf, tensorOf, vectorOf } from "#devices/cuda/memory";
import type { DeviceTensor } from "../../device-data.ts";
import type { RopeKvWriteInput } from "../../ops.ts";
import type { CudaContext } from "./context.ts";
import { checkedHeadDim } from "./head-dim.ts";

const params = new KernelParams([
  ...(["pointer", "pointer", "pointer"] as const),
  ...KV_LAYER,
  ...(["pointer", "pointer", "pointer", "pointer", "pointer"] as const),
  ...(["i32", "i32", "i32", "f32"] as const),
]);

/** Warps of a block, one per head: `kWarps` of native/cuda/rope-kv-write.cu. */
const headsOfBlock = 8;

/** `kThreads` of native/cuda/rope-kv-write-pairs.cu, and the heads of a thread of many tokens. */
const pairThreads = 256;
const headsOfThread = 3;
/** Blocks of few tokens that a multiprocessor runs at once. */
const blocksAtOnce = 5;

/** Calls one of the kernels with `RopeKvWriteParams` (native/cuda/rope-kv-write.h). */
export function ropeKvWrite(context: CudaContext, input: RopeKvWriteInput): void {
  const { count, heads, sinkQuery } = input;
  const cache = kvPoolOf(input.cache);
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
    ...cache.layerParams(input),
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
  const rows = { tokens: count, heads: heads + 2 * kvHeads, headDim };
  // The reason is in native/cuda/rope-kv-write-pairs.cu.
  const isOfPairs = headDim % 16 === 0 && (rotary === headDim || input.rope === undefined);
  if (isOfPairs && sinkQuery === undefined) launchPairs(context, rows);
  else launchWarps(context, rows);
}

/** Inputs of the launch; a head is one of queries, keys or values. */
interface HeadRows {
  readonly tokens: number;
  readonly heads: number;
  readonly headDim: number;
}

/** A warp per head, of any kind. Launches with the arguments in `params`. */
function launchWarps({ kernels, launcher }: CudaContext, { tokens, heads }: HeadRows): void {
  const grid = [tokens, Math.ceil(heads / headsOfBlock)] as const;
  launcher.launch(kernels.rope_kv_write, { grid, threads: headsOfBlock * 32 }, params);
}

/** The same for heads of whole pairs: a thread has several where tokens fill the GPU. */
function launchPairs({ kernels, launcher, gpu }: CudaContext, rows: HeadRows): void {
  const { tokens, heads, headDim } = rows;
  const blockHeads = pairThreads / 2 ** Math.ceil(Math.log2(headDim / 8));
  const blocks = Math.ceil(heads / blockHeads);
  const isFew = blocks === 1 || tokens * blocks <= gpu.multiprocessors * blocksAtOnce;
  const [kernel, along] = isFew
    ? [kernels.rope_kv_write_few, blocks]
    : [kernels.rope_kv_write_many, Math.ceil(blocks / headsOfThread)];
  launcher.launch(kernel, { grid: [tokens, along], threads: pairThreads }, params);
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
