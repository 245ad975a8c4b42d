/**
 * kvcache: who holds which KV block, and whose prefix can be shared.
 *
 * A block stores keys and values of `blockTokens` consecutive positions, for every layer.
 * Sequences hold blocks through their tables; sequences with equal history hold the same ones.
 *
 *   kv-cache.ts      the books as a whole: match, adopt, allocate, publish, release
 *   block-table.ts   the blocks of one sequence, in position order
 *   block-pool.ts    counts holders, hands out blocks, takes them back
 *   prefix-tree.ts   finds stored blocks by history and tokens
 *   eviction.ts      picks which unheld block to forget first: the contract, and LRU
 *   eviction-policies.ts   all such orders by name
 *   ranked-eviction.ts     lowest rank first, but leaves before what they continue
 *   block-ranking.ts       what a block is worth: by uses, by depth, by priority
 *   block-heap.ts    blocks by rank
 *   block-list.ts    an ordered set of blocks, linked in a typed array
 *   block-id.ts      what a block is called
 *
 * Invariant: never sees a tensor. It deals in ids; kernels own the bytes behind them.
 * Invariant: each block is free, held or cached, and exactly one of these (SPEC.md, KV1).
 *
 * @module
 */

export { BlockHeap } from "./block-heap.ts";
export { type BlockId, blockId } from "./block-id.ts";
export { BlockList } from "./block-list.ts";
export type { BlockMove } from "./block-move.ts";
export { type BlockCounts, BlockPool } from "./block-pool.ts";
export { PRIORITY_DEFAULT, PRIORITY_MAX, PRIORITY_MIN } from "./block-ranking.ts";
export { BlockTable } from "./block-table.ts";
export { type EvictionPolicy, LruEviction } from "./eviction.ts";
export { createEviction, EVICTION_POLICIES, type EvictionPolicyName } from "./eviction-policies.ts";
export { KvCache, type KvCacheShape } from "./kv-cache.ts";
export type * from "./kv-event.ts";
export { NO_MATCH, type PartialMatch, type PrefixMatch, withoutPartial } from "./prefix-match.ts";
export {
  type BlockHash,
  type BlockPlace,
  type NodeId,
  type PrefixIndex,
  PrefixTree,
  type PrefixTreeOptions,
} from "./prefix-tree.ts";
