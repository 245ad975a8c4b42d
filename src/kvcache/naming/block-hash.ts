/**
 * Names of a block's contents outside this process: a hash over the block and all before it. Events
 * and files name contents by it; the tree itself compares tokens, never hashes.
 */
import type { MultimodalKey, NodeId } from "#kvcache/contents";

/** Hash algorithms of contents; equal on all nodes that share names of contents. */
export const BLOCK_HASH_ALGORITHMS = ["v1_block_key", "sha256_cbor"] as const;
/** `v1_block_key`: TensorRT-LLM's. `sha256_cbor`: vLLM's of the same name. */
export type BlockHashAlgorithm = (typeof BLOCK_HASH_ALGORITHMS)[number];

/** The hashed contents of one block, beside its parent. */
export interface BlockContent {
  /** The block's tokens only: a view that need not live longer than the call. */
  readonly tokens: Int32Array;
  /** One per token; absent: there are none. */
  readonly extraIds?: ArrayLike<number>;
  /** Null is not 0: no adapter, and the adapter with number 0. */
  readonly loraId: number | null;
  /** Counts at the root only; descendants inherit it through their parents. */
  readonly cacheSalt: string | null;
  readonly multimodalKeys: readonly MultimodalKey[];
}

/** Hashes of all nodes of a prefix tree. Nothing is freed: a node's next contents overwrite it. */
export interface BlockHasher {
  readonly algorithm: BlockHashAlgorithm;
  /** A node got contents; `parent` null: at the root, else a node that was set before. */
  set(node: NodeId, parent: NodeId | null, content: BlockContent): void;
  /** The name of a node's contents and all before it: unsigned, 64 bits. */
  hashOf(node: NodeId): bigint;
  /** All bits of the hash, big-endian: 8 or 32 bytes. A view, overwritten with the node. */
  digestOf(node: NodeId): Uint8Array;
}

/** The number of nodes, and the seed of the hash chains. */
export interface BlockHasherOptions {
  readonly nodes: number;
  /**
   * For `sha256_cbor`: what vLLM takes from PYTHONHASHSEED; equal seeds make equal hashes, in any
   * process. Default: "0".
   */
  readonly seed?: string;
}
