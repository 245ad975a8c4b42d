import { type Kernel, KernelParams, type LaunchShape, PACKED_ROWS } from "#devices/cuda/kernels";
import { activationOf, kvPoolOf } from "#devices/cuda/memory";
import type { KvFormat, KvPool, WeightFormat } from "../../device-data.ts";
import type { AttentionBatch, PagedAttentionInput } from "../../ops.ts";
import { ATTENTION_INPUT, attentionFields } from "./attention-fields.ts";
import type { CudaContext } from "./context.ts";
import { HEAD_DIM_MAX } from "./head-dim.ts";

/**
 * `kDecodeThreads`, `kKvTileTokens`, `kSequencesMax`, `kDecodeBlocksMax` and `kWarp` of
 * native/cuda.
 */
const threads = 128;
const kvTileTokens = 16;
const sequencesMax = 1024;
const gridMax = 2048;
/** `kTreeWordsMax` of native/cuda. */
const treeWordsMax = 2;
const warpThreads = 32;

/** Most query rows that one pass over keys and values serves: more do not fit the registers. */
const queryTileRows = { usual: 16, largeHeads: 8 } as const;

/** Query tiles of a kv head that a sequence may have (bench/gpu/short-prompts.mjs). */
const queryTilesMax = 4;
/**
 * KV tiles that a warp of a split reads before a query tile gets another split: merging the partial
 * results of two takes as long as some tiles. For one sequence, which leaves most of the GPU idle,
 * 576 tokens took 9.5 us in one split, 6.9 in four; for eight sequences 10.2 in one, 11.4 in two
 * (one H200, 8 kv heads of 128 in bf16).
 */
const warpTilesMax = { lone: 1, several: 6 } as const;

/** Longest context of rows of drafts that are attended to without stream-K's partition. */
export const SHORT_CONTEXT = 2048;
/** Query tiles for each multiprocessor up to which that is quicker: they take turns there. */
const turnsMax = 4;

/** Work of a launch: query tiles of `rows` rows in heads that are padded to `dims`. */
interface DecodeShape {
  readonly dims: 64 | 128 | 256;
  readonly rows: 8 | 16;
  readonly format: KvFormat;
  readonly sequences: number;
  readonly queryTilesOfSequence: number;
  /** Longest context. */
  readonly contextMax: number;
  /** `AttentionBatch.rowsApart`. */
  readonly rowsApart: boolean;
}

const params = new KernelParams([
  ...PACKED_ROWS,
  ...ATTENTION_INPUT,
  ...(["pointer", "i32"] as const),
]);

/** Whether the kernel for sequences with few query rows supports this input. */
export function canAttendDecode(input: PagedAttentionInput): boolean {
  const { batch, heads } = input;
  const cache = kvPoolOf(input.cache);
  const { format } = activationOf(input.out, input.count, heads * cache.headDim);
  return isMaskSupported(batch) && decodesFrom(cache, format, batch.sequences);
}

/** Of trees, each row must be a sequence of its own. */
function isMaskSupported({ treeMask, queryLengthMax }: AttentionBatch): boolean {
  return (
    treeMask === undefined || (queryLengthMax === 1 && (treeMask.shape[1] ?? 0) <= treeWordsMax)
  );
}

/** Whether it supports plain decode steps: its launch then does not depend on their contexts. */
export function decodesFrom(cache: KvPool, out: WeightFormat, sequences: number): boolean {
  return (
    out === "bf16" &&
    cache.format !== "f32" &&
    cache.headDim % 8 === 0 &&
    cache.headDim <= HEAD_DIM_MAX &&
    cache.blockTokens % kvTileTokens === 0 &&
    sequences <= sequencesMax
  );
}

/**
 * Most rows of a sequence that `attendDecode` handles, apart from single tokens, which it always
 * handles: `decodeRows` of `AttentionInput`. Each query tile reads the context once, but all of the
 * GPU does: the prefill kernels walk over it with one block for each kv head.
 */
export function decodeRowsOf(input: PagedAttentionInput): number {
  const { usual, largeHeads } = queryTileRows;
  return queryTilesMax * (kvPoolOf(input.cache).headDim > 128 ? largeHeads : usual);
}

/** The decoded sequences, and the launch for them. */
export interface DecodeChoice {
  /** `decodeRows` of `AttentionInput`. */
  readonly decodeRows: number;
  /** Splits of each query tile, 0: stream-K; the best by default. For measurements. */
  readonly splits?: number;
  /** Warps of a split, a number that its kernel supports. */
  readonly warps?: number;
}

/** Attention of the sequences that are decoded (`isDecode` of native/cuda/attention-input.h). */
export function attendDecode(
  context: CudaContext,
  input: PagedAttentionInput,
  { decodeRows, ...choice }: DecodeChoice,
): void {
  const shape = shapeOf(input, decodeRows);
  const { splits = splitsOf(context, shape), warps = splitWarps(shape) } = choice;
  const { kernel, launch, partials } =
    splits === 0 ? streamKLaunch(context, shape) : splitLaunch(context, shape, { splits, warps });
  const [partialMemory] = context.scratch.take([partials * partialBytesOf(shape)]);
  const cache = kvPoolOf(input.cache);
  params.fill(
    ...activationOf(input.out, input.count, input.heads * cache.headDim).params,
    ...attentionFields(input, decodeRows),
    partialMemory,
    shape.queryTilesOfSequence,
  );
  context.launcher.launch(kernel, launch, params);
}

function shapeOf({ heads, batch, ...input }: PagedAttentionInput, decodeRows: number): DecodeShape {
  const { kvHeads, headDim, format } = kvPoolOf(input.cache);
  const group = heads / kvHeads;
  const rowsMax = Math.max(group, Math.min(batch.queryLengthMax * group, decodeRows));
  const dims = headDim <= 64 ? 64 : headDim <= 128 ? 128 : 256;
  const rows = rowsMax <= 8 || dims === 256 ? 8 : queryTileRows.usual;
  const queryTilesOfSequence = kvHeads * Math.ceil(rowsMax / rows);
  const { sequences, contextLengthMax: contextMax, rowsApart = false } = batch;
  return { dims, rows, format, sequences, queryTilesOfSequence, contextMax, rowsApart };
}

/** `PartialResult` of native/cuda: for each row its values, maximum and sum of weights. */
function partialBytesOf({ rows, dims }: DecodeShape): number {
  return rows * (dims + 2) * 4;
}

/** A kernel, its launch, and the number of partial results it needs memory for. */
interface DecodeLaunch {
  readonly kernel: Kernel;
  readonly launch: LaunchShape;
  readonly partials: number;
}

/**
 * Splits of each query tile; 0: stream-K, where all warps read equally many KV tiles, whatever the
 * lengths of the sequences. For few sequences stream-K's partition itself costs more.
 */
function splitsOf({ gpu }: CudaContext, shape: DecodeShape): number {
  const { sequences, queryTilesOfSequence, contextMax, rowsApart } = shape;
  const queryTiles = Math.max(1, sequences * queryTilesOfSequence);
  const most = Math.floor(gpu.multiprocessors / queryTiles);
  const tiles = Math.max(1, Math.ceil(contextMax / kvTileTokens));
  const warpTiles = sequences === 1 ? warpTilesMax.lone : warpTilesMax.several;
  const wanted = Math.ceil(tiles / (splitWarps(shape) * warpTiles));
  if (wanted <= most) return wanted;
  if (sequences === 1) return most;
  // Rows of drafts have nearly equal contexts: nothing needs to be balanced.
  const takesTurns = queryTiles <= turnsMax * gpu.multiprocessors;
  return rowsApart && contextMax <= SHORT_CONTEXT && takesTurns ? Math.max(1, most) : 0;
}

/** Warps that fit a multiprocessor's registers: the last numbers in native/cuda. */
function splitWarps({ dims, rows }: DecodeShape): number {
  if (rows === 16 || dims === 256) return 8;
  return dims === 64 ? 16 : 12;
}

function splitLaunch(
  context: CudaContext,
  shape: DecodeShape,
  { splits, warps }: Required<Pick<DecodeChoice, "splits" | "warps">>,
): DecodeLaunch {
  const { sequences, queryTilesOfSequence } = shape;
  const kernel = context.kernels[`attend_decode_split_${suffixOf(shape)}`];
  const sharedBytes = warps * partialBytesOf(shape);
  kernel.allowSharedBytes(sharedBytes);
  const grid = [splits, queryTilesOfSequence, sequences] as const;
  return {
    kernel,
    launch: { grid, threads: warps * warpThreads, sharedBytes },
    partials: splits * queryTilesOfSequence * sequences,
  };
}

function streamKLaunch(context: CudaContext, shape: DecodeShape): DecodeLaunch {
  const kernel = context.kernels[`attend_decode_${suffixOf(shape)}`];
  const grid = gridOf(context, kernel);
  return { kernel, launch: { grid: [grid], threads }, partials: 2 * grid };
}

type Elements = Exclude<KvFormat, "f32">;

function suffixOf({ dims, rows, format }: DecodeShape) {
  // `canAttendDecode` refuses f32.
  const element = format as Elements;
  if (dims === 256) return `256_${element}` as const;
  return rows === 8 ? (`${dims}_${element}` as const) : (`${dims}_${element}_16` as const);
}

const grids = new WeakMap<Kernel, number>();

/** As many blocks as run at once: the same for every step, computed once. */
function gridOf({ gpu }: CudaContext, kernel: Kernel): number {
  const known = grids.get(kernel);
  if (known !== undefined) return known;
  const grid = Math.min(gpu.multiprocessors * kernel.blocksPerMultiprocessor(threads), gridMax);
  grids.set(kernel, grid);
  return grid;
}
