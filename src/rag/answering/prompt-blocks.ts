/** Where the parts of a prompt lie in its tokens, and which cached blocks they end in. */
import type { TextCodec } from "#engine";
import { type BlockHashAlgorithm, createBlockHasher, type NodeId } from "#kvcache";

/** How a model's cache names its blocks. */
export interface BlockNames {
  readonly algorithm: BlockHashAlgorithm;
  readonly blockTokens: number;
  readonly cacheSalt: string | null;
}

/**
 * The token in which each of some texts begins, in the prompt's order; null for one that the prompt
 * does not have in its own bytes (tokenizers may change characters).
 */
export function tokenStarts(
  ids: readonly number[],
  texts: readonly string[],
  codec: TextCodec,
): (number | null)[] {
  const pieces = ids.map((id) => codec.tokenBytes(id));
  const ends: number[] = [];
  let length = 0;
  for (const piece of pieces) {
    length += piece.length;
    ends.push(length);
  }
  const bytes = Buffer.concat(pieces);
  let from = 0;
  return texts.map((text) => {
    const at = bytes.indexOf(text, from, "utf8");
    if (at < 0) return null;
    from = at + Buffer.byteLength(text);
    return firstAbove(ends, at);
  });
}

/** The place of the first number above `value` in an ascending list. */
function firstAbove(ascending: readonly number[], value: number): number {
  let [low, high] = [0, ascending.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((ascending[middle] ?? 0) > value) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** For each end, in tokens: the hash of the last block that is full there; null: there is none. */
export function hashesAt(
  ids: readonly number[],
  ends: readonly (number | null)[],
  { algorithm, blockTokens, cacheSalt }: BlockNames,
): (bigint | null)[] {
  const blocks = Math.floor(ids.length / blockTokens);
  const hasher = createBlockHasher(algorithm, { nodes: Math.max(1, blocks) });
  const tokens = Int32Array.from(ids);
  const content = { loraId: null, cacheSalt, multimodalKeys: [] };
  for (let block = 0; block < blocks; block++) {
    const own = tokens.subarray(block * blockTokens, (block + 1) * blockTokens);
    // Blocks of one prompt are a chain: the block's number serves as its node.
    const parent = block === 0 ? null : ((block - 1) as NodeId);
    hasher.set(block as NodeId, parent, { ...content, tokens: own });
  }
  return ends.map((end) => {
    const last = end === null ? -1 : Math.floor(end / blockTokens) - 1;
    return last < 0 ? null : hasher.hashOf(last as NodeId);
  });
}
