/**
 * kvcache/contents: the contents that blocks store, and how stored prefixes are found.
 *
 *   prefix-tree.ts    finds stored blocks by prefix and tokens: block-place.ts is the place of a
 *                     block, node-contents.ts its tokens, node-blocks.ts the blocks that store it
 *   sibling-order.ts  distinguishes the children of a node, bit by bit
 *   content-index.ts  the prefix tree with levels (cache-level.ts)
 *   content-keys.ts, scope.ts   a block's identity beside its tokens
 *   look-up.ts        a prompt to look up; prefix-match.ts: its stored prefix
 *   block-id.ts, block-table.ts   the name of a block; the blocks of one sequence, by position
 *   occupation.ts    how long a sequence held how many blocks of the device
 *   number-pool.ts, name-numbers.ts   small numbers for records, and for strings
 *
 * @module
 */
export { type BlockId, blockId, type LevelBlockId, levelBlockId } from "./block-id.ts";
export { type NodeId, nodeId } from "./block-place.ts";
export { BlockTable } from "./block-table.ts";
export type { CacheLevel, KvEventDiff } from "./cache-level.ts";
export { ContentIndex } from "./content-index.ts";
export {
  type ContentKeys,
  extraOf,
  type MultimodalItem,
  type MultimodalKey,
  parseExtra,
} from "./content-keys.ts";
export { type LookUp, placeOf } from "./look-up.ts";
export { type HeldBy, Occupation } from "./occupation.ts";
export {
  type GroupMatch,
  matchParts,
  NO_MATCH,
  type PartialMatch,
  type PrefixMatch,
  withoutPartial,
} from "./prefix-match.ts";
export {
  type BlockPlace,
  type PartialFind,
  PrefixTree,
  type PrefixTreeOptions,
} from "./prefix-tree.ts";
export { type CacheScope, groupOfScope, groupScope, parseScope, scopeKey } from "./scope.ts";
