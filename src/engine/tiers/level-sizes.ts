import { EngineError } from "#base";
import type { EngineOptions } from "#engine/protocol";
import { tooLarge, tooSmall } from "./size-errors.ts";

/** Memory of the cache's bookkeeping per block of any level, measured and rounded up. */
const BOOK_BYTES_PER_BLOCK = 160;
/** Largest share of the free memory for the bookkeeping of the disk level. */
const BOOKS_SHARE = 0.25;
/** Blocks of all levels are numbered in 32 bits; half of that leaves room for the others. */
const BLOCKS_MAX = 2 ** 30;

/** Limits of the levels below the device. */
export interface LevelRoom {
  readonly bytesPerBlock: number;
  /** Free memory of this machine. */
  readonly bytesFree: number;
}

/**
 * Refuses impossible sizes of host and disk levels. Throws INVALID_ARGUMENT naming the field, with
 * the numbers.
 */
export function checkLevelSizes(
  { hostCacheBytes, diskCacheBytes }: EngineOptions["kvCache"],
  { bytesPerBlock, bytesFree }: LevelRoom,
): void {
  const levels = { hostCacheBytes, diskCacheBytes };
  for (const [param, bytes] of Object.entries(levels)) {
    if (bytes > 0 && bytes < bytesPerBlock) throw tooSmall(param, bytes, bytesPerBlock);
  }
  if (hostCacheBytes > bytesFree) throw tooLarge("hostCacheBytes", hostCacheBytes, bytesFree);
  const blocks = Math.floor(diskCacheBytes / bytesPerBlock);
  const booksMax = Math.floor(bytesFree * BOOKS_SHARE);
  const most = Math.min(BLOCKS_MAX, Math.floor(booksMax / BOOK_BYTES_PER_BLOCK));
  if (blocks <= most) return;
  throw new EngineError(
    "INVALID_ARGUMENT",
    `Cannot use diskCacheBytes: must be at most ${most * bytesPerBlock} bytes, current value is ` +
      `${diskCacheBytes}, whose ${blocks} blocks need ${blocks * BOOK_BYTES_PER_BLOCK} bytes of ` +
      `memory for their books, a quarter of what is free is ${booksMax}; ` +
      "lower diskCacheBytes, or raise blockTokens",
    { param: "diskCacheBytes" },
  );
}
