import { assert } from "#base";
import type { EvictionPolicyName } from "#kvcache/eviction";
import type { BooksShape } from "#kvcache/levels";
import type { BlockHashAlgorithm } from "#kvcache/naming";

/** What later queries see of a sequence: its first `sinkTokens` and the newest, `tokens` in all. */
export interface CacheWindow {
  readonly tokens: number;
  /** Leading tokens that stay visible (StreamingLLM); 0: none. */
  readonly sinkTokens: number;
}

/** How large the levels are, what is shared, and what is forgotten first. */
export interface KvCacheShape {
  /** Blocks on the device. */
  readonly blocks: number;
  /** Positions per block. */
  readonly blockTokens: number;
  /** Blocks in host memory, behind the device's. Default: 0. */
  readonly hostBlocks?: number;
  /** Blocks on disk, behind the host's, which there must be then. Default: 0. */
  readonly diskBlocks?: number;
  /** Device blocks worth less are forgotten, not moved to host memory. Default: 30. */
  readonly offloadPriorityMin?: number;
  /** Off: no block is ever published, so none is shared. Default: on. */
  readonly prefixCaching?: boolean;
  /** Share the start of a block, too, by a copy or by taking it over. Default: on. */
  readonly partialReuse?: boolean;
  /** Copy such a block where somebody holds or continues it. Default: on. */
  readonly copyOnPartialReuse?: boolean;
  /** Which cached block to forget first. Default: priority. */
  readonly evictionPolicy?: EvictionPolicyName;
  /** Set where every layer sees at most so much of a sequence: the rest is given back. */
  readonly window?: CacheWindow | null;
  /** Tell of changes, by hashes of this rule; null: nobody listens. Default: null. */
  readonly events?: BlockHashAlgorithm | null;
}

/** Where TensorRT-LLM's code draws the line; one of its documents says 35. */
export const OFFLOAD_PRIORITY_MIN = 30;

/** The levels of a cache of this shape. */
export function booksShape(shape: KvCacheShape): BooksShape {
  const { blockTokens, blocks, hostBlocks = 0, diskBlocks = 0 } = shape;
  assert(Number.isInteger(blockTokens) && blockTokens > 0, "Blocks need positions");
  assert(diskBlocks === 0 || hostBlocks > 0, "Blocks reach the disk through host memory");
  return {
    blocksPerLevel: [blocks, hostBlocks, diskBlocks].filter((count) => count > 0),
    blockTokens,
    evictionPolicy: shape.evictionPolicy ?? "priority",
    offloadPriorityMin: shape.offloadPriorityMin ?? OFFLOAD_PRIORITY_MIN,
  };
}

/** Places of a table that no query at `position` or later sees: from, to. Without window none. */
export function unseenBlocks(
  window: CacheWindow | null,
  blockTokens: number,
  position: number,
): { readonly from: number; readonly to: number } {
  if (window === null) return { from: 0, to: 0 };
  const { tokens, sinkTokens } = window;
  const from = Math.ceil(sinkTokens / blockTokens);
  const firstSeen = position - (tokens - sinkTokens) + 1;
  return { from, to: Math.max(from, Math.floor(firstSeen / blockTokens)) };
}
