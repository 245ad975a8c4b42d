/**
 * kvcache: who holds which KV block, and whose prefix can be shared.
 *
 * A block stores keys and values of `blockTokens` consecutive positions, for every layer.
 * Sequences hold blocks through their tables; sequences with equal history hold the same ones.
 *
 *   kv-cache.ts      the whole, for tables: match, adopt, allocate, publish, release
 *   cache-shape.ts, cache-stats.ts   what it is made from, and what it counts
 *   prefix-reuse.ts  what of a prompt is stored, given to tables; prefix-match.ts is the answer
 *   publisher.ts     what tables hold, made known; look-up.ts says where it goes
 *   truncation.ts    takes a conversation back
 *   swap.ts          whole tables to host memory and back
 *   disk-books.ts    what goes to disk and comes from there; disk-heads.ts: what must go, too
 *   cache-books.ts   all levels together: what is stored where, and every move between them
 *   cache-tier.ts    one level: its pool, what its blocks are worth, which goes first
 *   content-index.ts the prefix tree with levels; content-keys.ts, scope.ts tell contents apart
 *   store-observer.ts      tells of changes, and names contents
 *   block-hash.ts    names of contents by either rule: v1-block-key-hasher.ts with v1-block-key.ts,
 *                    sha256-cbor-hasher.ts with cbor-writer.ts
 *   kv-event.ts      what is told; kv-event-queue.ts numbers a step's events
 *   kv-event-log.ts  the newest events, for readers; kv-mirror.ts is what a reader knows
 *   kv-event-json.ts, kv-event-json-reader.ts   events as TensorRT-LLM writes them
 *   vllm-event-encoder.ts  events as vLLM words them
 *   block-table.ts   the blocks of one sequence, in position order
 *   block-pool.ts    counts holders, hands out blocks, takes them back
 *   prefix-tree.ts   finds stored blocks by history and tokens: block-place.ts says where,
 *                    node-contents.ts what, node-blocks.ts in which blocks
 *   sibling-order.ts tells the children of a node apart, bit by bit
 *   number-pool.ts, name-numbers.ts   small numbers for records, and for texts
 *   eviction.ts      picks which unheld block to forget first: the contract, and LRU
 *   eviction-policies.ts   all such orders by name
 *   priority-eviction.ts   lowest priority first, but leaves before what they continue
 *   ranked-eviction.ts     the same by other ranks
 *   block-ranking.ts       what a block is worth: by uses, by depth
 *   retention.ts     how long people want ranges of tokens kept; retention-params.ts checks it
 *   retention-book.ts      what each block is worth, and until when
 *   block-heap.ts    blocks by rank
 *   block-queues.ts  ordered sets of blocks, linked in a typed array; block-list.ts is one of them
 *   block-id.ts      what a block is called
 *   disk-job.ts      what is to happen between host memory and disk
 *   load-cost.ts     whether stored blocks are worth fetching; speed-meter.ts measures
 *
 * Invariant: never sees a tensor. It deals in ids; kernels own the bytes behind them.
 * Invariant: each block is free, held or cached, and exactly one of these (SPEC.md, KV1).
 *
 * @module
 */

export { BLOCK_HASH_ALGORITHMS, type BlockHashAlgorithm } from "./block-hash.ts";
export { BlockHeap } from "./block-heap.ts";
export { type BlockId, blockId } from "./block-id.ts";
export { BlockList } from "./block-list.ts";
export type { BlockMove } from "./block-move.ts";
export { type BlockCounts, BlockPool } from "./block-pool.ts";
export { BlockQueues } from "./block-queues.ts";
export { BlockTable } from "./block-table.ts";
export { type CacheWindow, type KvCacheShape, OFFLOAD_PRIORITY_MIN } from "./cache-shape.ts";
export type { CacheStats, LevelStats } from "./cache-stats.ts";
export type { ContentKeys, MultimodalItem } from "./content-keys.ts";
export type { BlockFile, DiskJob, FinishedDiskJob } from "./disk-job.ts";
export { type EvictionPolicy, LruEviction } from "./eviction.ts";
export { createEviction, EVICTION_POLICIES, type EvictionPolicyName } from "./eviction-policies.ts";
export { KvCache } from "./kv-cache.ts";
export type * from "./kv-event.ts";
export { kvEventJson, kvEventsJson, kvSnapshotJson } from "./kv-event-json.ts";
export {
  type KvSnapshotPart,
  parseKvEvent,
  parseKvEvents,
  parseKvSnapshot,
} from "./kv-event-json-reader.ts";
export {
  isLost,
  KV_EVENTS_KEPT,
  type KvEventItem,
  KvEventLog,
  KvEventReader,
  type LostKvEvents,
} from "./kv-event-log.ts";
export { KvEventQueue } from "./kv-event-queue.ts";
export { KvMirror } from "./kv-mirror.ts";
export {
  attentionWeight,
  type LoadChoice,
  LoadCost,
  type LoadCostOptions,
  type PrefillShape,
  prefillWork,
} from "./load-cost.ts";
export { NO_MATCH, type PartialMatch, type PrefixMatch, withoutPartial } from "./prefix-match.ts";
export {
  type BlockPlace,
  type NodeId,
  type PartialFind,
  PrefixTree,
  type PrefixTreeOptions,
} from "./prefix-tree.ts";
export { PriorityEviction } from "./priority-eviction.ts";
export type { StoredTail } from "./publisher.ts";
export {
  type BlockRetention,
  checkedRetention,
  decodeRetention,
  PRIORITY_DEFAULT,
  PRIORITY_MAX,
  PRIORITY_MIN,
  promptRetention,
  type RetentionConfig,
  type RetentionProblem,
  retentionProblem,
  retentionWarning,
  type TokenRangeRetention,
} from "./retention.ts";
export { RetentionBook } from "./retention-book.ts";
export { parseRetention, type RetentionOptions, RetentionParams } from "./retention-params.ts";
export { type CacheScope, parseScope, scopeKey } from "./scope.ts";
export { SpeedMeter } from "./speed-meter.ts";
export {
  type VllmAllBlocksCleared,
  type VllmBlockRemoved,
  type VllmBlockStored,
  type VllmEvent,
  VllmEventEncoder,
  type VllmExtraKey,
  type VllmMedium,
} from "./vllm-event-encoder.ts";
