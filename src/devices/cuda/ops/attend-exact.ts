import { KernelParams, PACKED_ROWS } from "#devices/cuda/kernels";
import { activationOf, type CudaKvPool, kvPoolOf } from "#devices/cuda/memory";
import type { PagedAttentionInput } from "../../ops.ts";
import { ATTENTION_INPUT, attentionFields } from "./attention-fields.ts";
import { attentionRowsOut, TILE_ROWS } from "./attention-out.ts";
import type { CudaContext } from "./context.ts";

/** `kSegmentTokens`, `kAttentionThreads` and `kPartialHeader` of native/cuda. */
const segmentTokens = 256;
const threads = 256;
const partialHeaderFloats = 4;

/** Blocks per multiprocessor below which a long context is split, so that the whole GPU works. */
const blocksWanted = 8;
/** Most memory for partial results of segments: with more there are enough rows without splits. */
const partialBytesMax = 256 << 20;

const params = new KernelParams([
  ...PACKED_ROWS,
  ...ATTENTION_INPUT,
  ...(["pointer", "i32"] as const),
]);

/**
 * Attention for every format and mask, whose bits do not depend on the batch. Calls kernels with
 * `PagedAttentionParams` (native/cuda/paged-attention.cu).
 */
export function attendExact(context: CudaContext, input: PagedAttentionInput): void {
  const { count, heads } = input;
  const cache = kvPoolOf(input.cache);
  const plan = planOf(context, input, cache);
  const target = attentionRowsOut(context, activationOf(input.out, count, heads * cache.headDim), {
    count,
    countRoom: plan.countRoom,
    moreBytes: plan.partialBytes,
  });
  params.fill(...target.rows, ...attentionFields(input, 0), target.more, plan.segments);
  launch(context, plan, { count, heads, cache });
  target.finish();
}

/** How the work is split. */
interface Plan {
  readonly tiles: number;
  readonly segments: number;
  /** Bytes for partial results of segments; 0: a block loops over all segments of its tile. */
  readonly partialBytes: number;
  /** Tokens whose rows fit where there is memory for partial results. */
  readonly countRoom: number;
}

/**
 * The first batch that is split allocates for all whose contexts are no longer: the largest need
 * depends on the distribution of tokens, and no step at start tries them all.
 */
function planOf(context: CudaContext, input: PagedAttentionInput, cache: CudaKvPool): Plan {
  const { count, heads, batch } = input;
  const { kvHeads, headDim } = cache;
  const tiles = Math.floor((count * (heads / kvHeads)) / TILE_ROWS) + batch.sequences;
  const segments = Math.ceil(batch.contextLengthMax / segmentTokens);
  const busyBlocks = context.gpu.multiprocessors * blocksWanted;
  const partialBytesOf = (rows: number) => rows * segments * (partialHeaderFloats + headDim) * 4;
  const isBusy = tiles * kvHeads >= busyBlocks;
  const isWhole = segments <= 1 || isBusy || partialBytesOf(count * heads) > partialBytesMax;
  if (isWhole) return { tiles, segments, partialBytes: 0, countRoom: count };
  // A batch that is split has fewer blocks than that, and so no more rows than these.
  const rowsMax = busyBlocks * TILE_ROWS;
  const partialBytes = Math.min(partialBytesOf(rowsMax), partialBytesMax);
  return { tiles, segments, partialBytes, countRoom: Math.ceil(rowsMax / heads) };
}

function launch(
  { kernels, launcher }: CudaContext,
  { tiles, segments, partialBytes }: Plan,
  { count, heads, cache }: { count: number; heads: number; cache: CudaKvPool },
): void {
  const { kvHeads, headDim } = cache;
  if (partialBytes === 0) {
    launcher.launch(kernels.attend_tiles, { grid: [tiles, kvHeads], threads }, params);
    return;
  }
  launcher.launch(kernels.attend_segments, { grid: [segments, kvHeads, tiles], threads }, params);
  const ofHead = Math.ceil(headDim / 32) * 32;
  launcher.launch(kernels.merge_segments, { grid: [count, heads], threads: ofHead }, params);
}
