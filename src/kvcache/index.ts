/**
 * kvcache: which sequence holds which KV block, and which prefixes can be shared.
 *
 * A block stores keys and values of `blockTokens` consecutive positions, for every layer of a
 * group; most models have one group, which is all layers. Sequences hold blocks through their
 * tables; sequences with equal history hold the same ones.
 *
 *   kv-cache.ts      the interface, for tables: match, adopt, allocate, publish, release
 *   cache-shape.ts, cache-stats.ts   its settings and its statistics
 *   prefix-reuse.ts  gives tables the stored prefix of a prompt
 *   group-match.ts   the prefix that all groups of layers have
 *   table-blocks.ts  changes which blocks a table holds, in all groups of layers
 *   table-prefixes.ts  fills tables with stored prefixes, in all groups of layers
 *   publisher.ts     publishes the blocks that tables hold
 *   forgetting.ts     empties the cache on request
 *   cache-look.ts    what is where, for people: block-map.ts, prefix-picture.ts
 *   truncation.ts    cuts a conversation back
 *   public.ts        what users of the package import
 *
 * Folders, each with an index.ts of its own, low to high:
 *
 *   contents/   the contents that blocks store, and how prefixes are found
 *   naming/     hashers that name contents
 *   eviction/   which block is evicted first, and the retention that clients ask for
 *   events/     KV events for readers outside
 *   levels/     the device, host memory and disk, and the moves between them
 *
 * Invariant: never sees a tensor. It handles block ids; kernels own the bytes behind them.
 * Invariant: each block is free, held or cached, and exactly one of these (SPEC.md, KV1).
 *
 * @module
 */

export {
  type BlockId,
  type BlockPlace,
  BlockTable,
  blockId,
  type CacheLevel,
  type CacheScope,
  type ContentKeys,
  type GroupMatch,
  groupScope,
  type KvEventDiff,
  type LevelBlockId,
  type LookUp,
  levelBlockId,
  type MultimodalItem,
  type MultimodalKey,
  matchParts,
  NO_MATCH,
  type NodeId,
  Occupation,
  type PartialFind,
  type PartialMatch,
  type PrefixMatch,
  PrefixTree,
  type PrefixTreeOptions,
  parseScope,
  scopeKey,
  withoutPartial,
} from "#kvcache/contents";
export {
  isLost,
  KV_EVENTS_KEPT,
  type KvEvent,
  type KvEventItem,
  KvEventLog,
  KvEventQueue,
  KvEventReader,
  KvMirror,
  type KvRun,
  type KvSnapshot,
  type KvSnapshotPart,
  kvEventJson,
  kvEventsJson,
  kvRunJson,
  kvSnapshotJson,
  type LostKvEvents,
  type NumberedKvEvent,
  type NumberedKvRun,
  parseKvEvent,
  parseKvEvents,
  parseKvRun,
  parseKvSnapshot,
  type SnapshotBlock,
  type StoredBlock,
  type TokenForm,
  type VllmAllBlocksCleared,
  type VllmBlockRemoved,
  type VllmBlockStored,
  type VllmEvent,
  VllmEventEncoder,
  type VllmExtraKey,
  type VllmMedium,
} from "#kvcache/events";
export {
  BlockHeap,
  BlockList,
  BlockQueues,
  type BlockRetention,
  checkedRetention,
  createEviction,
  decodeRetention,
  EVICTION_POLICIES,
  type EvictionPolicy,
  type EvictionPolicyName,
  LruEviction,
  PRIORITY_DEFAULT,
  PRIORITY_MAX,
  PRIORITY_MIN,
  PriorityEviction,
  parseRetention,
  promptRetention,
  RetentionBook,
  type RetentionConfig,
  type RetentionOptions,
  RetentionParams,
  type RetentionProblem,
  retentionProblem,
  retentionWarning,
  type TokenRangeRetention,
} from "#kvcache/eviction";
export {
  attentionWeight,
  type BlockFile,
  type BlockMove,
  BlockPool,
  type CacheMoves,
  type DiskFlush,
  type DiskJob,
  type EndedReceive,
  type FinishedDiskJob,
  type FinishedPeerJob,
  type FlushCounts,
  type LoadChoice,
  LoadCost,
  type LoadCostOptions,
  PeerBooks,
  type PeerJob,
  type PeerStats,
  type PoolStats,
  type PrefillShape,
  prefillWork,
  SpeedMeter,
  type TransferLevel,
} from "#kvcache/levels";
export { BLOCK_HASH_ALGORITHMS, type BlockHashAlgorithm, createBlockHasher } from "#kvcache/naming";
export { CELL_BYTES, type LevelMap } from "./block-map.ts";
export type { CacheAsk, CacheLook, PrefixTokens } from "./cache-look.ts";
export { type CacheWindow, type KvCacheShape, OFFLOAD_PRIORITY_MIN } from "./cache-shape.ts";
export type { CacheStats, LevelStats } from "./cache-stats.ts";
export { KvCache } from "./kv-cache.ts";
export type {
  NodeName,
  PrefixAsk,
  PrefixPicture,
  PrefixRun,
  RunSegment,
} from "./prefix-picture.ts";
export type { StoredTail } from "./publisher.ts";
