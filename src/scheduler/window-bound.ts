import type { KvCache } from "#kvcache";
import type { SchedulerConfig } from "./config.ts";

/** Most that one sequence needs where blocks fall out of a window, however long it becomes. */
export interface WindowBound {
  /**
   * Most tokens that one step computes of it: with the tokens that they see they must fit the pool.
   */
  readonly chunkTokens: number;
  /** Blocks that it holds at most at a time. */
  readonly blocks: number;
}

/**
 * The bound of a cache with a window; null where the pool bounds sequences as a whole: without a
 * window, without chunks, or when the pool does not hold the window and one token more.
 */
export function windowBound(cache: KvCache, config: SchedulerConfig): WindowBound | null {
  const { window, blockTokens, totalBlocks } = cache;
  if (window === null || !config.chunkedPrefill) return null;
  const sinkBlocks = cache.blocksFor(window.sinkTokens);
  // A chunk sees so many tokens before its first one. They and the chunk may begin and end inside
  // of blocks, which takes one block more.
  const seen = window.tokens - window.sinkTokens - 1;
  const room = (totalBlocks - sinkBlocks - 1) * blockTokens - seen;
  const chunkTokens = Math.min(config.stepTokensMax, room);
  if (chunkTokens < 1) return null;
  return { chunkTokens, blocks: sinkBlocks + cache.blocksFor(seen + chunkTokens) + 1 };
}
