/** Rows of logits: the split of sampling and log-probabilities over the GPU. */
import { assert } from "#base";
import { KernelParams } from "#devices/cuda/kernels";
import type { CudaContext } from "./context.ts";

/** `kVocabularyThreads` of native/cuda/vocabulary.h. */
export const VOCABULARY_THREADS = 1024;

/** Tokens whose weights, in units of 2^-44 of the likeliest, sum up in 64 bits. */
const tokensMax = 2 ** 19;

/** `kBestThreads` of native/cuda/best-tokens.cu. */
const bestThreads = 512;
/** A block of `bestThreads` has this many logits in flight twice. */
const sliceTokens = 8192;
/** Most slices of a row; a thread of the next kernel reads each, and few are quicker to compare. */
const slicesMax = 64;

/** `sizeof(RowState)` and `kPartsMax` of native/cuda/likelihood-bins.h. */
const rowStateBytes = 25_096;
const partsMax = 32;

const params = new KernelParams(["pointer", "pointer", "pointer", "i32", "i32"]);

/** The vocabulary's size, after a check against the kernels' sums. */
export function checkedVocabulary(tokens: number): number {
  assert(
    tokens > 0 && tokens <= tokensMax,
    `Cannot sample on cuda: a vocabulary of at most ${tokensMax} wanted, ${tokens} given`,
  );
  return tokens;
}

/** Logits [count, tokens] on the device. */
export interface LogitRows {
  readonly logits: bigint;
  readonly count: number;
  readonly tokens: number;
}

/** Results in scratch memory for the kernel after `findBest`, which reads and extends them. */
export interface BestTokens {
  /** [count, slices] u64: the likeliest token of each slice. */
  readonly bests: bigint;
  readonly slices: number;
  /** [count] RowState, zeros; only with more than one part. */
  readonly states: bigint;
  /** Blocks per row in the next kernel. */
  readonly parts: number;
}

/** Enqueues the search for each row's likeliest token, and zeroes the memory of the next kernel. */
export function findBest(context: CudaContext, rows: LogitRows): BestTokens {
  const { kernels, launcher, gpu, scratch } = context;
  const { logits, count, tokens } = rows;
  const parts = clamp(Math.floor(gpu.multiprocessors / Math.max(count, 1)), 1, partsMax);
  const slices = slicesOf(rows, gpu.multiprocessors);
  const stateBytes = parts > 1 ? rowStateBytes : 0;
  // Fewer rows have more parts and slices each: allocating for any number of rows lets the largest
  // step at start cover all.
  const [bests, states] = scratch.take([
    8 * Math.max(count * slices, 2 * gpu.multiprocessors),
    rowStateBytes * Math.floor(gpu.multiprocessors / 2),
  ]);
  params.fill(bests, logits, states, tokens, stateBytes / 4);
  const shape = { grid: [count, slices], threads: bestThreads } as const;
  launcher.launch(kernels.best_tokens, shape, params);
  return { bests, slices, states, parts };
}

/**
 * Slices of a row: few rows are cut finely so that the whole GPU reads; many rows only as far as
 * streaming needs.
 */
function slicesOf({ count, tokens }: LogitRows, multiprocessors: number): number {
  const toStream = Math.ceil(tokens / sliceTokens);
  const toFill = Math.floor((2 * multiprocessors) / Math.max(count, 1));
  const useful = Math.ceil(tokens / bestThreads);
  return Math.min(clamp(toFill, toStream, slicesMax), useful);
}

function clamp(value: number, least: number, most: number): number {
  return Math.max(Math.min(value, most), least);
}
