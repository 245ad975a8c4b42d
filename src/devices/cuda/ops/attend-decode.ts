import { type Kernel, KernelParams, type LaunchShape, PACKED_ROWS } from "#devices/cuda/kernels";
import { activationOf, kvPoolOf } from "#devices/cuda/memory";
import type { KvFormat, KvPool, WeightFormat } from "../../device-data.ts";
import type { PagedAttentionInput } from "../../ops.ts";
import { ATTENTION_INPUT, attentionFields } from "./attention-fields.ts";
import type { CudaContext } from "./context.ts";
import { HEAD_DIM_MAX } from "./head-dim.ts";

/** `kDecodeThreads`, `kTileTokens`, `kSequencesMax`, `kDecodeBlocksMax`, `kWarp` of native/cuda. */
const threads = 128;
const tileTokens = 16;
const sequencesMax = 1024;
const gridMax = 2048;
const warpThreads = 32;

/** Most query rows that one pass over keys and values serves: more do not fit the registers. */
const rowsOfStrand = { usual: 16, largeHeads: 8 } as const;

/**
 * Tiles of a context that a warp of a strand's own blocks reads before the strand is split over
 * more blocks: combining the shares of two takes as long as some tiles. For one sequence, which
 * leaves most of the GPU idle, 576 tokens took 9.5 us in a block for each strand, 6.9 in four; for
 * eight sequences 10.2 in one, 11.4 in two (one H200, 8 kv heads of 128 in bf16).
 */
const warpTilesMax = { lone: 1, several: 6 } as const;

/** Work of a launch: strands of `rows` rows in heads that are padded to `dims`. */
interface DecodeShape {
  readonly dims: 64 | 128 | 256;
  readonly rows: 8 | 16;
  readonly format: KvFormat;
  readonly sequences: number;
  readonly strandsOfSequence: number;
  /** Longest context. */
  readonly contextMax: number;
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
  return batch.treeMask === undefined && decodesFrom(cache, format, batch.sequences);
}

/** Whether it supports plain decode steps: its launch then does not depend on their contexts. */
export function decodesFrom(cache: KvPool, out: WeightFormat, sequences: number): boolean {
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
 * Most rows of a sequence that `attendDecode` handles, apart from single tokens, which it always
 * handles: `decodeRows` of `AttentionInput`.
 */
export function decodeRowsOf(input: PagedAttentionInput): number {
  return kvPoolOf(input.cache).headDim > 128 ? rowsOfStrand.largeHeads : rowsOfStrand.usual;
}

/** The decoded sequences, and the launch for them. */
export interface DecodeChoice {
  /** `decodeRows` of `AttentionInput`. */
  readonly decodeRows: number;
  /**
   * Blocks for each strand, 0: all blocks share all strands; the best by default. For measurements.
   */
  readonly parts?: number;
  /** Warps of a strand's block, a number that its kernel supports. */
  readonly warps?: number;
}

/** Attention of the sequences that are decoded (`isDecode` of native/cuda/attention-split.h). */
export function attendDecode(
  context: CudaContext,
  input: PagedAttentionInput,
  { decodeRows, ...choice }: DecodeChoice,
): void {
  const shape = shapeOf(input, decodeRows);
  const { parts = partsOf(context, shape), warps = strandWarps(shape) } = choice;
  const { kernel, launch, shares } =
    parts === 0 ? sharedLaunch(context, shape) : strandLaunch(context, shape, { parts, warps });
  const [shareMemory] = context.scratch.take([shares * shareBytesOf(shape)]);
  const cache = kvPoolOf(input.cache);
  params.fill(
    ...activationOf(input.out, input.count, input.heads * cache.headDim).params,
    ...attentionFields(input, decodeRows),
    shareMemory,
    shape.strandsOfSequence,
  );
  context.launcher.launch(kernel, launch, params);
}

function shapeOf({ heads, batch, ...input }: PagedAttentionInput, decodeRows: number): DecodeShape {
  const { kvHeads, headDim, format } = kvPoolOf(input.cache);
  const group = heads / kvHeads;
  const rowsMax = Math.max(group, Math.min(batch.queryLengthMax * group, decodeRows));
  const dims = headDim <= 64 ? 64 : headDim <= 128 ? 128 : 256;
  const rows = rowsMax <= 8 || dims === 256 ? 8 : rowsOfStrand.usual;
  const strandsOfSequence = kvHeads * Math.ceil(rowsMax / rows);
  const contextMax = batch.contextLengthMax;
  return { dims, rows, format, sequences: batch.sequences, strandsOfSequence, contextMax };
}

/** Bytes of a share: for each row its values, max and sum. */
function shareBytesOf({ rows, dims }: DecodeShape): number {
  return rows * (dims + 2) * 4;
}

/** A kernel, its launch, and the number of shares it needs memory for. */
interface DecodeLaunch {
  readonly kernel: Kernel;
  readonly launch: LaunchShape;
  readonly shares: number;
}

/**
 * Blocks for each strand of its own; 0: all blocks share all strands, so that many sequences are
 * read at an even pace, whatever their lengths. For few sequences the sharing itself costs more.
 */
function partsOf({ gpu }: CudaContext, shape: DecodeShape): number {
  const { sequences, strandsOfSequence, contextMax } = shape;
  const most = Math.floor(gpu.multiprocessors / Math.max(1, sequences * strandsOfSequence));
  const tiles = Math.max(1, Math.ceil(contextMax / tileTokens));
  const warpTiles = sequences === 1 ? warpTilesMax.lone : warpTilesMax.several;
  const wanted = Math.ceil(tiles / (strandWarps(shape) * warpTiles));
  if (wanted <= most) return wanted;
  return sequences === 1 ? most : 0;
}

/** Warps that fit a multiprocessor's registers: the last numbers in native/cuda. */
function strandWarps({ dims, rows }: DecodeShape): number {
  if (rows === 16 || dims === 256) return 8;
  return dims === 64 ? 16 : 12;
}

function strandLaunch(
  context: CudaContext,
  shape: DecodeShape,
  { parts, warps }: Required<Pick<DecodeChoice, "parts" | "warps">>,
): DecodeLaunch {
  const { sequences, strandsOfSequence } = shape;
  const kernel = context.kernels[`attend_strand_${suffixOf(shape)}`];
  const sharedBytes = warps * shareBytesOf(shape);
  kernel.allowSharedBytes(sharedBytes);
  const grid = [parts, strandsOfSequence, sequences] as const;
  return {
    kernel,
    launch: { grid, threads: warps * warpThreads, sharedBytes },
    shares: parts * strandsOfSequence * sequences,
  };
}

function sharedLaunch(context: CudaContext, shape: DecodeShape): DecodeLaunch {
  const kernel = context.kernels[`attend_decode_${suffixOf(shape)}`];
  const grid = gridOf(context, kernel);
  return { kernel, launch: { grid: [grid], threads }, shares: 2 * grid };
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
