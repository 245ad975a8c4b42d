/**
 * perigee/kvcache: the bookkeeping of a paged KV cache, without a model and without memory.
 *
 * `KvCache` decides which blocks, of `blockTokens` positions each, get a sequence's keys and
 * values, which stored blocks it shares, and which cached block is evicted. It works with block ids
 * and token ids; the caller owns the bytes. The caller passes the time in, in milliseconds.
 *
 * For one sequence: `match` finds the stored prefix of its tokens, `adopt` shares it, `allocate`
 * adds blocks (false: the pool has too few), `takeMoves` returns the copies to carry out before the
 * keys and values of further positions are written, `publish` makes full blocks findable, and
 * `release` gives all blocks back: published ones stay cached until their room is needed. A wrong
 * order of calls is a bug of the caller and throws an Error. Blocks are those of the device unless
 * `KvCacheShape` asks for levels in host memory or on disk.
 *
 *   const cache = new KvCache({ blocks: 100, blockTokens: 16 });
 *   const table = new BlockTable();
 *   const tokens = Int32Array.from({ length: 40 }, (_, token) => token);
 *   cache.adopt(table, cache.match("", tokens));
 *   cache.allocate(table, cache.blocksFor(tokens.length) - table.length);
 *   const source = { length: tokens.length, view: (a, b) => tokens.subarray(a, b) };
 *   cache.publish(table, source, tokens.length);
 *   cache.release(table);
 *
 * Readers outside, such as routers, follow a cache through its events: `takeEvents` and `snapshot`
 * of a cache, `KvEventLog` and `KvMirror`, and their forms as JSON and for routers of vLLM workers.
 *
 * @module
 */

// Tables, matches and the identity of contents.
export {
  type BlockId,
  BlockTable,
  type CacheLevel,
  type CacheScope,
  type ContentKeys,
  type KvEventDiff,
  type MultimodalItem,
  type MultimodalKey,
  NO_MATCH,
  type NodeId,
  type PartialMatch,
  type PrefixMatch,
  parseScope,
  scopeKey,
} from "#kvcache/contents";
// Events for readers outside.
export {
  isLost,
  type KvEvent,
  type KvEventItem,
  KvEventLog,
  KvEventReader,
  KvMirror,
  type KvSnapshot,
  type KvSnapshotPart,
  kvEventJson,
  kvEventsJson,
  kvSnapshotJson,
  type LostKvEvents,
  type NumberedKvEvent,
  parseKvEvent,
  parseKvEvents,
  parseKvSnapshot,
  type SnapshotBlock,
  type StoredBlock,
  type VllmEvent,
  VllmEventEncoder,
} from "#kvcache/events";
// Which block is evicted first, and how much blocks are worth.
export {
  type BlockRetention,
  checkedRetention,
  decodeRetention,
  EVICTION_POLICIES,
  type EvictionPolicyName,
  PRIORITY_DEFAULT,
  PRIORITY_MAX,
  PRIORITY_MIN,
  promptRetention,
  type RetentionConfig,
  type TokenRangeRetention,
} from "#kvcache/eviction";
// Moves between levels, which the caller carries out.
export type {
  BlockFile,
  BlockMove,
  DiskJob,
  FinishedDiskJob,
  PoolStats,
} from "#kvcache/levels";
export { BLOCK_HASH_ALGORITHMS, type BlockHashAlgorithm } from "#kvcache/naming";
export { type CacheWindow, type KvCacheShape, OFFLOAD_PRIORITY_MIN } from "./cache-shape.ts";
export type { CacheStats, LevelStats } from "./cache-stats.ts";
export { KvCache } from "./kv-cache.ts";
export type { StoredTail, TokenSource } from "./publisher.ts";
