import type { LevelBlockId } from "#kvcache/contents";
import { DepthRanking, UseRanking } from "./block-ranking.ts";
import { type EvictionPolicy, LruEviction } from "./eviction.ts";
import { PriorityEviction } from "./priority-eviction.ts";
import { RankedEviction } from "./ranked-eviction.ts";

/** All eviction policies; SPEC.md, KV6 and KV18 to KV22, defines them. */
export const EVICTION_POLICIES = [
  "lru",
  "lfu",
  "length-aware",
  "priority",
  "true-priority",
] as const;

/** A name from `EVICTION_POLICIES`. */
export type EvictionPolicyName = (typeof EVICTION_POLICIES)[number];

/** An empty policy for `blocks` blocks; `isCovered`: see content-index.ts. */
export function createEviction(
  name: EvictionPolicyName,
  blocks: number,
  isCovered: (block: LevelBlockId) => boolean,
): EvictionPolicy {
  switch (name) {
    case "lru":
      return new LruEviction(blocks);
    case "lfu":
      return new RankedEviction(blocks, new UseRanking(blocks), isCovered);
    case "length-aware":
      return new RankedEviction(blocks, new DepthRanking(blocks), isCovered);
    case "priority":
      return new PriorityEviction(blocks, isCovered);
    case "true-priority":
      return new PriorityEviction(blocks, () => false);
  }
}
