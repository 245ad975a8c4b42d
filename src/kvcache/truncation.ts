/**
 * Truncates a conversation: the contents behind the cut will not be requested again, so their
 * blocks are evicted first. TensorRT-LLM's `truncateBlocks`.
 */
import { assert } from "#base";
import { type LookUp, type NodeId, placeOf } from "#kvcache/contents";
import type { CacheBooks } from "#kvcache/levels";

/** Which stored prefix is cut, and where. */
export interface Cut {
  readonly prompt: LookUp;
  /** Leading tokens that stay as they are. */
  readonly keep: number;
  readonly blockTokens: number;
}

/** See `KvCache.truncate`. */
export function truncate(books: CacheBooks, { prompt, keep, blockTokens }: Cut): number {
  assert(keep >= 0, "Cannot truncate: the tokens to keep must be at least 0");
  const chain = storedChain(books, prompt, blockTokens);
  const firstCut = Math.ceil(keep / blockTokens);
  let first = chain.length;
  while (first > firstCut && isAlone(books, chain, first - 1)) first--;
  // The last node is demoted last, and evicted first.
  let demoted = 0;
  for (const node of chain.slice(first)) {
    for (const block of books.index.blocksOf(node)) {
      books.demote(block);
      demoted++;
    }
  }
  return demoted;
}

/** The nodes of all leading blocks of a prompt that are stored, its partial tail included. */
function storedChain({ index }: CacheBooks, prompt: LookUp, blockTokens: number): NodeId[] {
  const chain: NodeId[] = [];
  let parent: NodeId | null = null;
  for (let start = 0; start < prompt.tokens.length; start += blockTokens) {
    const count = Math.min(blockTokens, prompt.tokens.length - start);
    const place = placeOf(prompt, parent, start, count);
    const full = count === blockTokens ? index.find(place) : null;
    if (full === null) {
      const tail = index.findPartial(place);
      if (tail !== null && index.tree.lengthOf(tail.node) === tail.tokens) chain.push(tail.node);
      return chain;
    }
    chain.push(full);
    parent = full;
  }
  return chain;
}

/** Whether a node's blocks are unheld, and it has no child but the chain's next node. */
function isAlone(books: CacheBooks, chain: readonly NodeId[], at: number): boolean {
  const node = chain[at];
  assert(node !== undefined, "Cannot look past the end of a chain");
  const { index } = books;
  const isLast = at === chain.length - 1;
  if (isLast ? index.hasChildren(node) : index.hasSeveralChildren(node)) return false;
  for (const block of index.blocksOf(node)) {
    if (books.booksOf(block).holders(block) > 0) return false;
  }
  return true;
}
