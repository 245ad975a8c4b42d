import type { PagedAttentionInput } from "../../ops.ts";
import { ATTENTION_INPUT, attentionFields } from "../attention-fields.ts";
import { attentionRowsOut, TILE_ROWS } from "../attention-out.ts";
import type { CudaContext } from "../context.ts";
import { activationOf } from "../handles.ts";
import { KernelParams, PACKED_ROWS } from "../kernel-params.ts";
import { type CudaKvCache, kvCacheOf } from "../kv-cache.ts";

/** `kSegmentTokens`, `kAttentionThreads` and `kShareHead` of native/cuda. */
const segmentTokens = 256;
const threads = 256;
const shareHeadFloats = 4;

/** Blocks per multiprocessor below which a long context is cut, so that the chip is busy. */
const blocksWanted = 8;
/** Most memory for shares of segments: beyond it there are rows enough without cutting. */
const sharesBytesMax = 256 << 20;

const params = new KernelParams([
  ...PACKED_ROWS,
  ...ATTENTION_INPUT,
  ...(["pointer", "i32"] as const),
]);

/** Every format and mask, with equal bits whatever the batch. Fields of `PagedAttentionParams`. */
export function attendExact(context: CudaContext, input: PagedAttentionInput): void {
  const { count, heads } = input;
  const cache = kvCacheOf(input.cache);
  const plan = planOf(context, input, cache);
  const target = attentionRowsOut(context, activationOf(input.out, count, heads * cache.headDim), {
    count,
    moreBytes: plan.sharesBytes,
  });
  params.fill(...target.rows, ...attentionFields(input, 0), target.more, plan.segments);
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
