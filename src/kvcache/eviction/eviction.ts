import type { LevelBlockId } from "#kvcache/contents";
import { BlockList } from "./block-list.ts";

/** Orders the unheld blocks whose contents may be requested again. */
export interface EvictionPolicy {
  readonly count: number;
  /** The block lost its last holder: it goes behind its equals. */
  add(block: LevelBlockId): void;
  /** The block lost its last holder and will not be requested again: it goes before its equals. */
  addFirst(block: LevelBlockId): void;
  /** The block is held again, or was forgotten. It must be in the order. */
  remove(block: LevelBlockId): void;
  /** The block to evict next; it stays until removed. null when there is none. */
  victim(): LevelBlockId | null;
  /**
   * All its blocks as if none were covered, the one to evict first first; a copy. Costs a scan, and
   * sorts where ranks do not lie in order.
   */
  inOrder(): LevelBlockId[];

  // Inputs that a policy may use; policies that ignore them leave these out.

  /** The block was allocated as the `index`-th of a table; its former history is void. */
  taken?(block: LevelBlockId, index: number): void;
  /** One more table holds the block. */
  shared?(block: LevelBlockId): void;
  /**
   * Sets a block's priority, 0 to `PRIORITY_MAX`, until the next such call. A cached block goes
   * behind its new equals, unless its priority is the same as before.
   */
  prioritise?(block: LevelBlockId, priority: number): void;
  /** A block that may have been covered (content-index.ts) is not covered any more. */
  uncovered?(block: LevelBlockId): void;
}

/**
 * Least recently released first. Tables release blocks tail first, so a sequence's tail is evicted
 * before its head, which others may share.
 */
export class LruEviction implements EvictionPolicy {
  readonly #order: BlockList;

  constructor(blocks: number) {
    this.#order = new BlockList(blocks);
  }

  get count(): number {
    return this.#order.count;
  }

  add(block: LevelBlockId): void {
    this.#order.pushBack(block);
  }

  addFirst(block: LevelBlockId): void {
    this.#order.pushFront(block);
  }

  remove(block: LevelBlockId): void {
    this.#order.remove(block);
  }

  victim(): LevelBlockId | null {
    return this.#order.front();
  }

  inOrder(): LevelBlockId[] {
    return [...this.#order];
  }
}
