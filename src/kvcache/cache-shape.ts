import { assert } from "#base";
import type { EvictionPolicyName } from "#kvcache/eviction";
import type { BooksShape } from "#kvcache/levels";
import type { BlockHashAlgorithm } from "#kvcache/naming";

/**
 * Attention window: a query sees a sequence's first `sinkTokens` and its newest tokens, `tokens` in
 * all.
 */
export interface CacheWindow {
  readonly tokens: number;
  /** Leading tokens that stay visible (StreamingLLM); 0: none. */
  readonly sinkTokens: number;
}

/** Sizes of the levels, prefix sharing and eviction order. */
export interface KvCacheShape {
  /** Blocks on the device. */
  readonly blocks: number;
  /** Positions per block. */
  readonly blockTokens: number;
  /** Blocks in host memory, behind the device's. Default: 0. */
  readonly hostBlocks?: number;
  /** Blocks on disk, behind host memory; needs host blocks. Default: 0. */
  readonly diskBlocks?: number;
  /**
   * Device blocks of lower priority are forgotten on eviction, not moved to host memory. Default:
   * 30.
   */
  readonly offloadPriorityMin?: number;
  /** Off: no block is ever published, so none is shared. Default: on. */
  readonly prefixCaching?: boolean;
  /** Reuse the start of a stored block, too, by a copy or by taking the block over. Default: on. */
  readonly partialReuse?: boolean;
  /** Copy such a block where it is held or has children. Default: on. */
  readonly copyOnPartialReuse?: boolean;
  /** Which cached block to evict first. Default: priority. */
  readonly evictionPolicy?: EvictionPolicyName;
  /**
   * By group of layers, at most 256: the window of a sequence that its layers see; blocks outside
   * it are released. null: all. Each group has a block for the same positions. Default: one group,
   * which sees all.
   */
  readonly windows?: readonly (CacheWindow | null)[];
  /** Emit KV events, with block hashes of this algorithm; null: no events. Default: null. */
  readonly events?: BlockHashAlgorithm | null;
  /**
   * The time at any moment, by which it is measured how long blocks are held. Default: the time of
   * the last `advance`.
   */
  readonly nowMs?: () => number;
}

/** TensorRT-LLM's threshold in its code; one of its documents says 35. */
export const OFFLOAD_PRIORITY_MIN = 30;

/** The levels of a cache of this shape. */
export function booksShape(shape: KvCacheShape): BooksShape {
  const { blockTokens, blocks, hostBlocks = 0, diskBlocks = 0 } = shape;
  assert(Number.isInteger(blockTokens) && blockTokens > 0, "Blocks need positions");
  assert(shape.windows?.length !== 0, "Cannot make a cache without a group of layers");
  assert(diskBlocks === 0 || hostBlocks > 0, "Blocks reach the disk through host memory");
  return {
    blocksPerLevel: [blocks, hostBlocks, diskBlocks].filter((count) => count > 0),
    blockTokens,
    evictionPolicy: shape.evictionPolicy ?? "priority",
    offloadPriorityMin: shape.offloadPriorityMin ?? OFFLOAD_PRIORITY_MIN,
    nowMs: shape.nowMs,
  };
}

/**
 * Table indices that no query at `position` or later sees: `from` up to `to`; none without a
 * window.
 */
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
