/**
 * KV cache events: the changes of a cache's contents. Contents are named by 64-bit hashes
 * (block-hash.ts), never by block ids: readers on other machines compute the same ones. Source:
 * TensorRT-LLM's KV cache events, which vLLM's are mapped from, too.
 */
import type { CacheLevel, KvEventDiff, MultimodalKey } from "#kvcache/contents";

/** One block's contents, findable from now on. */
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

/** One change of the findable contents, in the order of the changes. */
export type KvEvent =
  /** The cache was created: blocks per level. Always the first. */
  | { readonly type: "created"; readonly blocksPerLevel: readonly number[] }
  /** A run of blocks, each the parent of the next. `parentHash` null: at the root. */
  | {
      readonly type: "stored";
      readonly parentHash: bigint | null;
      readonly blocks: readonly StoredBlock[];
    }
  /** Contents that cannot be found any more, in any level. */
  | { readonly type: "removed"; readonly hashes: readonly bigint[] }
  /** Contents changed their level or their priority. */
  | {
      readonly type: "updated";
      readonly hash: bigint;
      readonly level: KvEventDiff<CacheLevel> | null;
      readonly priority: KvEventDiff | null;
    }
  /** The cache was cleared: `hashes` are all contents that could be found. */
  | { readonly type: "cleared"; readonly hashes: readonly bigint[] };

/** An event and its place in the cache's stream: 0, 1, 2 and so on without gaps. */
export interface NumberedKvEvent {
  readonly id: number;
  /** The group of layers whose contents changed; absent for the first, or only one. */
  readonly group?: number;
  readonly event: KvEvent;
}

/** One block's contents in a snapshot. */
export interface SnapshotBlock extends StoredBlock {
  /** The group of layers; absent for the first, or only one. */
  readonly group?: number;
  readonly parentHash: bigint | null;
}

/** All findable contents at one moment. Parents come before children. */
export interface KvSnapshot {
  /** The id of the first event that this snapshot does not contain. */
  readonly nextId: number;
  readonly blocksPerLevel: readonly number[];
  readonly blocks: readonly SnapshotBlock[];
}
