import { assert } from "#base";
import { sinkWindowOf } from "../../attention-sinks.ts";
import type { AttentionBatch, PagedAttentionInput } from "../../ops.ts";
import { attentionRowsOut, TILE_ROWS } from "../attention-out.ts";
import type { CudaContext } from "../context.ts";
import { activationOf, tensorOf, vectorOf } from "../handles.ts";
import { checkedHeadDim } from "../head-dim.ts";
import { KernelParams, PACKED_ROWS, type ParamKind } from "../kernel-params.ts";
import { type CudaKvCache, KV_LAYER, kvCacheOf } from "../kv-cache.ts";

/** `kSegmentTokens`, `kAttentionThreads` and `kShareHead` of native/cuda. */
const segmentTokens = 256;
const threads = 256;
const shareHeadFloats = 4;

/** Blocks per multiprocessor below which a long context is cut, so that the chip is busy. */
const blocksWanted = 8;
/** Most memory for shares of segments: beyond it there are rows enough without cutting. */
const sharesBytesMax = 256 << 20;

/** `AttentionRows` of native/cuda/attention-rows.h. */
const ATTENTION_ROWS: readonly ParamKind[] = [
  ...(["pointer", "pointer", "pointer", "i32", "i32", "i32", "i32"] as const),
];

const params = new KernelParams([
  ...PACKED_ROWS,
  ...(["pointer", "pointer"] as const),
  ...KV_LAYER,
  ...ATTENTION_ROWS,
  ...(["pointer", "pointer", "i64", "i32", "i32", "f32", "f32"] as const),
]);

/** Fields of `PagedAttentionParams` in native/cuda/paged-attention.cu. */
export function pagedAttention(context: CudaContext, input: PagedAttentionInput): void {
  const { count, heads, batch } = input;
  const cache = kvCacheOf(input.cache);
  const columns = heads * checkedHeadDim(cache.headDim);
  assert(
    heads % cache.kvHeads === 0,
    `Cannot share ${cache.kvHeads} kv heads among ${heads} query heads: a multiple wanted`,
  );
  const sinks = sinkWindowOf(input);
  const blocksPerTable = batch.blockTables.shape[1] ?? 0;
  const plan = planOf(context, input, cache);
  const target = attentionRowsOut(context, activationOf(input.out, count, columns), {
    count,
    moreBytes: plan.sharesBytes,
  });
  params.fill(
    ...target.rows,
    tensorOf(input.query, "f32", count, columns).address,
    sinks === null ? null : tensorOf(sinks.query, "f32", count, columns).address,
    ...cache.layerParams(input.layer),
    vectorOf(batch.queryStarts, "i32", batch.sequences + 1),
    vectorOf(batch.contextLengths, "i32", batch.sequences),
    ...treeFields(batch, count),
    sinks?.recentTokens ?? input.window ?? 0,
    sinks?.tokens ?? 0,
    tensorOf(batch.blockTables, "i32", batch.sequences, blocksPerTable).address,
    target.more,
    blocksPerTable,
    heads,
    plan.segments,
    input.scale,
    input.softcap ?? 0,
  );
  launch(context, plan, { count, heads, cache });
  target.finish();
}

/** How the work is cut. */
interface Plan {
  readonly tiles: number;
  readonly segments: number;
  /** 0: every tile walks over its segments alone. */
  readonly sharesBytes: number;
}

function planOf(context: CudaContext, input: PagedAttentionInput, cache: CudaKvCache): Plan {
  const { count, heads, batch } = input;
  const { kvHeads, headDim } = cache;
  const tiles = Math.floor((count * (heads / kvHeads)) / TILE_ROWS) + batch.sequences;
  const segments = Math.ceil(batch.contextLengthMax / segmentTokens);
  const sharesBytes = count * heads * segments * (shareHeadFloats + headDim) * 4;
  const blocks = tiles * kvHeads;
  const busy = blocks >= context.gpu.multiprocessors * blocksWanted;
  const walks = segments <= 1 || busy || sharesBytes > sharesBytesMax;
  return { tiles, segments, sharesBytes: walks ? 0 : sharesBytes };
}

function launch(
  { kernels, launcher }: CudaContext,
  { tiles, segments, sharesBytes }: Plan,
  { count, heads, cache }: { count: number; heads: number; cache: CudaKvCache },
): void {
  const { kvHeads, headDim } = cache;
  if (sharesBytes === 0) {
    launcher.launch(kernels.attend_tiles, { grid: [tiles, kvHeads], threads }, params);
    return;
  }
  launcher.launch(kernels.attend_segments, { grid: [segments, kvHeads, tiles], threads }, params);
  const ofHead = Math.ceil(headDim / 32) * 32;
  launcher.launch(kernels.merge_segments, { grid: [count, heads], threads: ofHead }, params);
}

/** Address, sequences and words per row of the tree mask. */
function treeFields(batch: AttentionBatch, count: number): readonly (bigint | number | null)[] {
  if (batch.treeMask === undefined) return [null, batch.sequences, 0];
  const words = batch.treeMask.shape[1] ?? 1;
  return [tensorOf(batch.treeMask, "u32", count, words).address, batch.sequences, words];
}
