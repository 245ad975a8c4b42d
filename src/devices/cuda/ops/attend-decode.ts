import type { KvCache, KvFormat, WeightFormat } from "../../device.ts";
import type { PagedAttentionInput } from "../../ops.ts";
import { ATTENTION_INPUT, attentionFields } from "../attention-fields.ts";
import type { CudaContext } from "../context.ts";
import { activationOf } from "../handles.ts";
import { HEAD_DIM_MAX } from "../head-dim.ts";
import type { Kernel } from "../kernel-module.ts";
import type { KernelName } from "../kernel-names.ts";
import { KernelParams, PACKED_ROWS } from "../kernel-params.ts";
import { kvCacheOf } from "../kv-cache.ts";

/** `kDecodeThreads`, `kTileTokens`, `kSequencesMax`, `kDecodeBlocksMax` of native/cuda. */
const threads = 128;
const tileTokens = 16;
const sequencesMax = 1024;
const gridMax = 2048;

/** Query rows that one pass over keys and values serves, at most: more find no registers. */
const rowsOfStrand = { usual: 16, largeHeads: 8 } as const;

const params = new KernelParams([
  ...PACKED_ROWS,
  ...ATTENTION_INPUT,
  ...(["pointer", "i32"] as const),
]);

/** Whether the kernel for sequences with few query rows takes this input. */
export function canAttendDecode(input: PagedAttentionInput): boolean {
  const { batch, heads } = input;
  const cache = kvCacheOf(input.cache);
  const { format } = activationOf(input.out, input.count, heads * cache.headDim);
  return batch.treeMask === undefined && decodesFrom(cache, format, batch.sequences);
}

/** Whether it takes plain decoding steps: its launch then does not depend on their contexts. */
export function decodesFrom(cache: KvCache, out: WeightFormat, sequences: number): boolean {
  return (
    out === "bf16" &&
    cache.format !== "f32" &&
    cache.headDim % 8 === 0 &&
    cache.headDim <= HEAD_DIM_MAX &&
    cache.blockTokens % tileTokens === 0 &&
    sequences <= sequencesMax
  );
}

/**
 * Most rows of a sequence that `attendDecode` takes, but for one token, which it always does:
 * `decodeRows` of `AttentionInput`.
 */
export function decodeRowsOf(input: PagedAttentionInput): number {
  return kvCacheOf(input.cache).headDim > 128 ? rowsOfStrand.largeHeads : rowsOfStrand.usual;
}

/** Attends for the sequences that are decoded (`isDecode` of native/cuda/attention-split.h). */
export function attendDecode(
  context: CudaContext,
  input: PagedAttentionInput,
  decodeRows: number,
): void {
  const cache = kvCacheOf(input.cache);
  const group = input.heads / cache.kvHeads;
  const rowsMax = Math.max(group, Math.min(input.batch.queryLengthMax * group, decodeRows));
  const dims = cache.headDim <= 64 ? 64 : cache.headDim <= 128 ? 128 : 256;
  const rows = rowsMax <= 8 || dims === 256 ? 8 : rowsOfStrand.usual;
  const kernel = context.kernels[kernelOf(dims, cache.format, rows)];
  const grid = gridOf(context, kernel);
  // Two shares for each block: of every row its values, max and sum.
  const shareBytes = rows * (dims + 2) * 4;
  const [shares] = context.scratch.take([2 * grid * shareBytes]);
  params.fill(
    ...activationOf(input.out, input.count, input.heads * cache.headDim).params,
    ...attentionFields(input, decodeRows),
    shares,
    cache.kvHeads * Math.ceil(rowsMax / rows),
  );
  context.launcher.launch(kernel, { grid: [grid], threads }, params);
}

function kernelOf(dims: 64 | 128 | 256, format: KvFormat, rows: 8 | 16): KernelName {
  // `canAttendDecode` refuses f32.
  const element = format as Exclude<KvFormat, "f32">;
  if (dims === 256) return `attend_decode_256_${element}`;
  return rows === 8 ? `attend_decode_${dims}_${element}` : `attend_decode_${dims}_${element}_16`;
}

const grids = new WeakMap<Kernel, number>();

/** As many blocks as run at once: the same for every step, and asked for once. */
function gridOf({ gpu }: CudaContext, kernel: Kernel): number {
  const known = grids.get(kernel);
  if (known !== undefined) return known;
  const grid = Math.min(gpu.multiprocessors * kernel.blocksPerMultiprocessor(threads), gridMax);
  grids.set(kernel, grid);
  return grid;
}
