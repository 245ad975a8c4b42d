import { createHash } from "node:crypto";
import { assert } from "#base";
import type { NodeId } from "#kvcache/contents";
import type { BlockContent, BlockHasher } from "./block-hash.ts";
import { V1BlockKey } from "./v1-block-key.ts";

const HASH_BYTES = 8;
const DIGEST_WORDS = 8;

/** Keeps `v1_block_key` of every node: 8 bytes each, big-endian. */
export class V1BlockKeyHasher implements BlockHasher {
  readonly algorithm = "v1_block_key";
  readonly #bytes: Uint8Array;
  readonly #hashes: DataView;
  readonly #key = new V1BlockKey();

  /** For nodes 0 up to `nodes`. */
  constructor(nodes: number) {
    this.#bytes = new Uint8Array(nodes * HASH_BYTES);
    this.#hashes = new DataView(this.#bytes.buffer);
  }

  set(node: NodeId, parent: NodeId | null, content: BlockContent): void {
    const key = this.#key;
    const { tokens, extraIds, loraId, cacheSalt, multimodalKeys } = content;
    if (parent === null) {
      key.start(tokens.length, 0, 0);
      if (cacheSalt !== null) mixBigInt(key, saltId(cacheSalt));
    } else {
      key.start(tokens.length, this.#word(parent, 1), this.#word(parent, 0));
    }
    key.mixTokens(tokens, extraIds ?? null);
    if (loraId !== null) mixBigInt(key, BigInt(loraId));
    for (const { hash, startOffset } of multimodalKeys) mixItem(key, hash, startOffset);
    this.#hashes.setInt32(node * HASH_BYTES, key.high);
    this.#hashes.setInt32(node * HASH_BYTES + 4, key.low);
  }

  hashOf(node: NodeId): bigint {
    return this.#hashes.getBigUint64(node * HASH_BYTES);
  }

  digestOf(node: NodeId): Uint8Array {
    return this.#bytes.subarray(node * HASH_BYTES, (node + 1) * HASH_BYTES);
  }

  /** Half of a hash, as a signed integer: 0 the high one, 1 the low one. */
  #word(node: NodeId, half: 0 | 1): number {
    return this.#hashes.getInt32(node * HASH_BYTES + half * 4);
  }
}

/**
 * A salt as the 64-bit number that TensorRT-LLM's algorithm needs: the first eight bytes of the
 * SHA-256 of its UTF-8, big-endian. TensorRT-LLM uses another function, so salted hashes differ
 * from its own.
 */
export function saltId(cacheSalt: string): bigint {
  return createHash("sha256").update(cacheSalt, "utf8").digest().readBigUInt64BE();
}

/** A multimodal item: its digest as eight little-endian words, then the offset into it. */
export function mixItem(key: V1BlockKey, digest: string, startOffset: number): void {
  const bytes = Buffer.from(digest, "hex");
  assert(bytes.length === DIGEST_WORDS * 4, "A multimodal digest has 64 hex digits");
  for (let word = 0; word < DIGEST_WORDS; word++) key.mix32(bytes.readUInt32LE(word * 4));
  mixBigInt(key, BigInt(startOffset));
}

/** Mixes a 64-bit number in. For rare values: tokens never come as BigInts. */
export function mixBigInt(key: V1BlockKey, value: bigint): void {
  key.mix64(Number(value & 0xffffffffn), Number((value >> 32n) & 0xffffffffn));
}
