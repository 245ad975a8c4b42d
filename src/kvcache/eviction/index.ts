/**
 * kvcache/eviction: which unheld block is evicted first, and the retention that clients ask for.
 *
 *   eviction.ts            the contract, and LRU; eviction-policies.ts: all policies by name
 *   priority-eviction.ts   lowest priority first, but leaves before their prefixes
 *   ranked-eviction.ts     the same by other ranks; block-ranking.ts: by uses, by depth
 *   retention.ts           priority and duration per range of tokens; retention-params.ts checks
 *   retention-book.ts      the priority of each block, and until when
 *   block-heap.ts          blocks by rank
 *   block-queues.ts        ordered sets of blocks in a typed array; block-list.ts: one of them
 *
 * @module
 */
export { BlockHeap } from "./block-heap.ts";
export { BlockList } from "./block-list.ts";
export { BlockQueues } from "./block-queues.ts";
export { type EvictionPolicy, LruEviction } from "./eviction.ts";
export { createEviction, EVICTION_POLICIES, type EvictionPolicyName } from "./eviction-policies.ts";
export { PriorityEviction } from "./priority-eviction.ts";
export {
  type BlockLease,
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
  timelessLease,
} from "./retention.ts";
export { RetentionBook } from "./retention-book.ts";
export { parseRetention, type RetentionOptions, RetentionParams } from "./retention-params.ts";
