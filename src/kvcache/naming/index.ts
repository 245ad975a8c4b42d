/**
 * kvcache/naming: hashes that name a block's contents, equal on every machine.
 *
 *   block-hash.ts   the contract and its two algorithms: v1-block-key-hasher.ts with
 *                   v1-block-key.ts (TensorRT-LLM's), sha256-cbor-hasher.ts with cbor-writer.ts
 *                   (vLLM's)
 *
 * @module
 */
export {
  BLOCK_HASH_ALGORITHMS,
  type BlockContent,
  type BlockHashAlgorithm,
  type BlockHasher,
} from "./block-hash.ts";
export { createBlockHasher } from "./hashers.ts";
