import type { BlockHashAlgorithm, BlockHasher, BlockHasherOptions } from "./block-hash.ts";
import { Sha256CborHasher } from "./sha256-cbor-hasher.ts";
import { V1BlockKeyHasher } from "./v1-block-key-hasher.ts";

/** Makes the hasher of an algorithm, for one tree. */
export function createBlockHasher(
  algorithm: BlockHashAlgorithm,
  options: BlockHasherOptions,
): BlockHasher {
  return algorithm === "v1_block_key"
    ? new V1BlockKeyHasher(options.nodes)
    : new Sha256CborHasher(options.nodes, options.seed);
}
