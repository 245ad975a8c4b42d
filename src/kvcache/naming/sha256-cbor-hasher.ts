import { createHash } from "node:crypto";
import type { NodeId } from "#kvcache/contents";
import type { BlockContent, BlockHasher } from "./block-hash.ts";
import { CborWriter } from "./cbor-writer.ts";

const DIGEST_BYTES = 32;
/** vLLM's own documentation starts its processes with this PYTHONHASHSEED. */
const DEFAULT_SEED = "0";

/**
 * vLLM's `sha256_cbor`: SHA-256 over the canonical CBOR of [parent, tokens, extra keys or null].
 * The chain runs over whole digests; events carry the last 64 bits. Blocks without extra keys hash
 * as in a vLLM process with the same PYTHONHASHSEED; vLLM names adapters, here they have numbers.
 */
export class Sha256CborHasher implements BlockHasher {
  readonly algorithm = "sha256_cbor";
  readonly #digests: Uint8Array;
  readonly #view: DataView;
  /** In place of the parent's digest at the root. */
  readonly #none: Uint8Array;
  readonly #writer = new CborWriter();

  /** For nodes 0 up to `nodes`; equal seeds make equal hashes. */
  constructor(nodes: number, seed: string = DEFAULT_SEED) {
    this.#digests = new Uint8Array(nodes * DIGEST_BYTES);
    this.#view = new DataView(this.#digests.buffer);
    this.#writer.reset();
    this.#writer.text(seed);
    this.#none = sha256(this.#writer.bytes());
  }

  set(node: NodeId, parent: NodeId | null, content: BlockContent): void {
    const writer = this.#writer;
    writer.reset();
    writer.array(3);
    writer.byteString(parent === null ? this.#none : this.digestOf(parent));
    writer.array(content.tokens.length);
    for (const token of content.tokens) writer.integer(token);
    writeExtraKeys(writer, content, parent === null);
    this.#digests.set(sha256(writer.bytes()), node * DIGEST_BYTES);
  }

  hashOf(node: NodeId): bigint {
    return this.#view.getBigUint64((node + 1) * DIGEST_BYTES - 8);
  }

  digestOf(node: NodeId): Uint8Array {
    return this.#digests.subarray(node * DIGEST_BYTES, (node + 1) * DIGEST_BYTES);
  }
}

/**
 * Adapter, multimodal items, salt (at the root), in vLLM's order, then extra ids, which vLLM does
 * not have. Null where there is none of them. An item's offset counts from the block's start, as
 * vLLM's does: negative where the item began before; 0 wherever it begins inside the block.
 */
function writeExtraKeys(writer: CborWriter, content: BlockContent, isRoot: boolean): void {
  const { loraId, multimodalKeys, extraIds } = content;
  const salt = isRoot ? content.cacheSalt : null;
  const count =
    (loraId === null ? 0 : 1) +
    multimodalKeys.length +
    (salt === null ? 0 : 1) +
    (extraIds === undefined ? 0 : 1);
  if (count === 0) {
    writer.null();
    return;
  }
  writer.array(count);
  if (loraId !== null) writer.integer(loraId);
  for (const { hash, startOffset } of multimodalKeys) {
    writer.array(2);
    writer.text(hash);
    writer.integer(-startOffset);
  }
  if (salt !== null) writer.text(salt);
  if (extraIds === undefined) return;
  writer.array(extraIds.length);
  for (let index = 0; index < extraIds.length; index++) writer.integer(extraIds[index] ?? 0);
}

function sha256(bytes: Uint8Array): Uint8Array {
  return createHash("sha256").update(bytes).digest();
}
