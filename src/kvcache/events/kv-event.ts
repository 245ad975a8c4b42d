/**
 * What a cache tells about itself. Contents are named by 64-bit hashes (block-hash.ts), never by
 * block ids: readers on other machines compute the same ones. Source: TensorRT-LLM's KV cache
 * events, which vLLM's are mapped from, too.
 */
import type { CacheLevel, KvEventDiff, MultimodalKey } from "#kvcache/contents";

/** One block's contents, which can be found from now on. */
export interface StoredBlock {
  /** Unsigned, 64 bits. */
  readonly hash: bigint;
  /** At most `blockTokens`; fewer in a sequence's tail. */
  readonly tokenIds: readonly number[];
  /** One per token; absent: all 0. */
  readonly extraIds?: readonly number[];
  readonly level: CacheLevel;
  readonly priority: number;
  readonly multimodalKeys: readonly MultimodalKey[];
  readonly loraId: number | null;
  readonly cacheSalt: string | null;
}

/** One change of what can be found, in the order in which it happened. */
export type KvEvent =
  /** The cache was made: blocks per level. Always the first. */
  | { readonly type: "created"; readonly blocksPerLevel: readonly number[] }
  /** A run of blocks, each the parent of the next. `parentHash` null: at the root. */
  | {
      readonly type: "stored";
      readonly parentHash: bigint | null;
      readonly blocks: readonly StoredBlock[];
    }
  /** Contents that cannot be found any more, in any level. */
  | { readonly type: "removed"; readonly hashes: readonly bigint[] }
  /** Contents moved, or became worth more or less. */
  | {
      readonly type: "updated";
      readonly hash: bigint;
      readonly level: KvEventDiff<CacheLevel> | null;
      readonly priority: KvEventDiff | null;
    }
  /** Everything was forgotten at once: `hashes` are all that could be found. */
  | { readonly type: "cleared"; readonly hashes: readonly bigint[] };

/** An event and its place in the cache's stream: 0, 1, 2 and so on without gaps. */
export interface NumberedKvEvent {
  readonly id: number;
  readonly event: KvEvent;
}

/** One content in a snapshot. */
export interface SnapshotBlock extends StoredBlock {
  readonly parentHash: bigint | null;
}

/** All that can be found at one moment. Parents come before what continues them. */
export interface KvSnapshot {
  /** The id of the first event that this snapshot does not contain. */
  readonly nextId: number;
  readonly blocksPerLevel: readonly number[];
  readonly blocks: readonly SnapshotBlock[];
}
