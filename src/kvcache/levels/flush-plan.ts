/** Which contents a flush writes, and in which order. */
import type { BlockId, NodeId } from "#kvcache/contents";
import type { CacheBooks } from "./cache-books.ts";

/** Contents that are to be on disk at the end. */
export interface Wanted {
  readonly node: NodeId;
  readonly serial: number;
  /** Of the block for whose sake it is wanted: the best that continues it, or its own. */
  readonly priority: number;
  /** Neither on disk nor on its way there. */
  readonly isNew: boolean;
}

/**
 * Full blocks that are cached on the device or in host memory, in the reverse of the order in which
 * they would be evicted: by priority where the policy goes by it, what is on the device before what
 * left it, then the most recently used first. Each follows the blocks that it continues. Device
 * blocks that eviction would not move are wanted only for the sake of others.
 */
export function planFlush(books: CacheBooks, isWritten: (node: NodeId) => boolean): Wanted[] {
  const { index } = books;
  const plan: Wanted[] = [];
  const planned = new Set<NodeId>();
  for (const block of byValue(books)) {
    const node = index.nodeOf(block);
    // A block that nothing can continue is not full.
    if (node === null || !index.fits(node, 1)) continue;
    const priority = books.booksOf(block).priorityOf(block);
    const chain: NodeId[] = [];
    for (let at: NodeId | null = node; at !== null; at = index.tree.parentOf(at)) {
      if (planned.has(at)) break;
      chain.push(at);
    }
    for (const at of chain.reverse()) {
      planned.add(at);
      plan.push({ node: at, serial: index.serialOf(at), priority, isNew: !isWritten(at) });
    }
  }
  return plan;
}

function byValue(books: CacheBooks): BlockId[] {
  const { device, host, offloadPriorityMin } = books;
  const wouldMove = (block: BlockId) => device.priorityOf(block) >= offloadPriorityMin;
  const blocks = device.cachedInOrder().filter(wouldMove).reverse();
  if (host !== null) for (const block of host.cachedInOrder().reverse()) blocks.push(block);
  if (!device.usesPriorities) return blocks;
  const priority = (block: BlockId) => books.booksOf(block).priorityOf(block);
  return blocks.sort((a, b) => priority(b) - priority(a));
}
