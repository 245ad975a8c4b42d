import type { BlockId } from "#kvcache/contents";
import { BlockList } from "./block-list.ts";

/** Orders the blocks that nobody holds but whose contents may be asked for again. */
export interface EvictionPolicy {
  readonly count: number;
  /** The block lost its last holder just now: it goes behind its equals. */
  add(block: BlockId): void;
  /** The block lost its last holder, and nobody will ask for it: it goes before its equals. */
  addFirst(block: BlockId): void;
  /** The block is held again, or was forgotten. It must be here. */
  remove(block: BlockId): void;
  /** Which block to forget next; it stays until removed. null when there is none. */
  victim(): BlockId | null;

  // What an order may depend on; those that do not care leave these out.

  /** The block was handed out to be the `index`-th of a table; what was known of it is void. */
  taken?(block: BlockId, index: number): void;
  /** One more table holds the block. */
  shared?(block: BlockId): void;
  /**
   * How much a block is worth keeping: 0 to `PRIORITY_MAX`, until the next such call. A block that
   * is here goes behind its new equals, unless that is what it was worth before.
   */
  prioritise?(block: BlockId, priority: number): void;
  /** The block was the only one of a prefix that others continue, maybe, and is not any more. */
  uncovered?(block: BlockId): void;
}

/**
 * Least recently released first. Tables give blocks back tail first, so of one sequence the tail
 * goes before the head that others may share.
 */
export class LruEviction implements EvictionPolicy {
  readonly #order: BlockList;

  constructor(blocks: number) {
    this.#order = new BlockList(blocks);
  }

  get count(): number {
    return this.#order.count;
  }

  add(block: BlockId): void {
    this.#order.pushBack(block);
  }

  addFirst(block: BlockId): void {
    this.#order.pushFront(block);
  }

  remove(block: BlockId): void {
    this.#order.remove(block);
  }

  victim(): BlockId | null {
    return this.#order.front();
  }
}
